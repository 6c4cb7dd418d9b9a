//! Randomness for losses: SplitMix64 (Steele, Lea and Flood 2014), the same stream for the same seed everywhere.

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0..`end`; no number is drawn for 0 and 1.
    pub fn below(&mut self, end: u64) -> u64 {
        if end <= 1 {
            return 0;
        }
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// True with the given probability; no number is drawn for 0.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // First outputs for seed 1234567, from the reference implementation.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_loss_rate_is_met_on_average() {
        let mut random = Random::new(1);
        let lost = (0..100_000).filter(|_| random.chance(0.01)).count();
        assert!((900..1100).contains(&lost), "{lost}");
        assert!(!random.chance(0.0));
    }
}

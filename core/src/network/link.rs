//! A link: the time a packet takes to be sent, and to arrive.

/// A server of fixed rate, then propagation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// `None`: packets take no time to be sent.
    pub rate_bps: Option<f64>,
    pub delay_ns: f64,
}

impl Link {
    /// Serialisation time of a packet, rounded to the nearest nanosecond.
    pub fn service_ns(&self, bytes: u32) -> i64 {
        self.rate_bps
            .map_or(0, |rate| (f64::from(bytes) * 8e9 / rate).round() as i64)
    }

    pub fn propagation_ns(&self) -> i64 {
        self.delay_ns.round() as i64
    }

    /// The same in seconds as doubles, in the order of operations in which ns-2 computes them.
    pub fn service_s(&self, bytes: u32) -> f64 {
        self.rate_bps
            .map_or(0.0, |rate| 8.0 * f64::from(bytes) / rate)
    }

    pub fn propagation_s(&self) -> f64 {
        self.delay_ns / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_time_is_bytes_over_rate() {
        // 512 B * 8 / 1.5 Mbit/s = 2.730667 ms.
        let link = Link {
            rate_bps: Some(1.5e6),
            delay_ns: 280e6,
        };
        assert_eq!(link.service_ns(512), 2_730_667);
        assert_eq!(link.propagation_ns(), 280_000_000);
        assert_eq!(
            Link {
                rate_bps: None,
                delay_ns: 0.0
            }
            .service_ns(1500),
            0
        );
    }
}

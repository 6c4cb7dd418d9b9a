//! The path's arithmetic against closed forms, without a device.

use super::*;
use proptest::prelude::*;

/// (number, bytes); an odd number is an ACK when `acks` are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbered {
    number: usize,
    bytes: u32,
    is_ack: bool,
}

impl Item for Numbered {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn is_data(&self) -> bool {
        !self.is_ack
    }

    fn is_pure_ack(&self) -> bool {
        self.is_ack
    }
}

fn data(number: usize) -> Numbered {
    Numbered {
        number,
        bytes: 1500,
        is_ack: false,
    }
}

fn node(rate_bps: f64, buffer: Option<u64>, delay_ns: f64) -> NodeSpec {
    NodeSpec {
        rate_bps: Some(rate_bps),
        buffer,
        buffer_unit: BufferUnit::Packets,
        counts_in_service: false,
        delay_ns,
        loss: 0.0,
        drop_packets: Vec::new(),
    }
}

/// Everyone enters at his time; who arrives, who is lost.
fn carry(
    mut chain: Chain<Numbered>,
    entering: &[(i64, Numbered)],
) -> (Vec<(i64, usize)>, Vec<Loss<Numbered>>) {
    let (mut arrived, mut losses) = (Vec::new(), Vec::new());
    for &(time, packet) in entering {
        chain.advance(time, &mut arrived, &mut losses);
        chain.enter(time, packet, &mut losses);
        assert!(chain.is_conserved());
    }
    chain.advance(i64::MAX / 2, &mut arrived, &mut losses);
    assert!(chain.is_conserved());
    assert_eq!(chain.inside(), 0);
    let arrived = arrived
        .into_iter()
        .map(|(time, packet)| (time, packet.number));
    (arrived.collect(), losses)
}

fn train(packets: usize) -> Vec<(i64, Numbered)> {
    (0..packets).map(|number| (0, data(number))).collect()
}

#[test]
fn a_train_leaves_one_service_time_apart_and_the_buffer_keeps_b_plus_one() {
    // 1500 B at 12 Mbit/s = 1 ms each, then 20 ms. B = 4 wait and 1 is in service: packets 0 to 4 of 10 pass.
    let chain = Chain::new(&[node(12e6, Some(4), 20e6)], 0, 0.0, 1);
    let (arrived, losses) = carry(chain, &train(10));
    let expected: Vec<_> = (0..5)
        .map(|n| (21_000_000 + 1_000_000 * n as i64, n))
        .collect();
    assert_eq!(arrived, expected);
    let lost: Vec<_> = losses
        .iter()
        .map(|loss| (loss.packet.number, loss.reason))
        .collect();
    let expected: Vec<_> = (5..10).map(|n| (n, Reason::Overflow)).collect();
    assert_eq!(lost, expected);
    assert!(
        losses
            .iter()
            .all(|loss| (loss.node, loss.queue_len, loss.time_ns) == (1, 4, 0))
    );
}

#[test]
fn the_packet_in_service_takes_a_place_when_the_node_says_so() {
    let mut counted = node(12e6, Some(4), 0.0);
    counted.counts_in_service = true;
    let (arrived, _) = carry(Chain::new(&[counted], 0, 0.0, 1), &train(10));
    assert_eq!(arrived.len(), 4);
}

#[test]
fn a_packet_that_leaves_makes_room_for_one_that_arrives_at_the_same_instant() {
    // B = 1: one in service, one waits. At 1 ms the first leaves, the second is served, and the third may wait.
    let chain = Chain::new(&[node(12e6, Some(1), 0.0)], 0, 0.0, 1);
    let entering = [(0, data(0)), (0, data(1)), (1_000_000, data(2))];
    let (arrived, losses) = carry(chain, &entering);
    assert_eq!(arrived, [(1_000_000, 0), (2_000_000, 1), (3_000_000, 2)]);
    assert!(losses.is_empty());
}

#[test]
fn two_nodes_in_a_row_pace_at_the_slower_one() {
    // 100 Mbit/s (120 us), 1 ms, then 10 Mbit/s (1.2 ms), 2 ms: the first at 0.12 + 1 + 1.2 + 2 = 4.32 ms.
    let nodes = [node(100e6, None, 1e6), node(10e6, None, 2e6)];
    let (arrived, _) = carry(Chain::new(&nodes, 0, 0.0, 1), &train(3));
    assert_eq!(arrived, [(4_320_000, 0), (5_520_000, 1), (6_720_000, 2)]);
}

#[test]
fn the_way_back_is_a_pure_delay() {
    let entering = [(0, data(0)), (7, data(1))];
    let (arrived, _) = carry(Chain::new(&[], 30_000_000, 0.0, 1), &entering);
    assert_eq!(arrived, [(30_000_000, 0), (30_000_007, 1)]);
}

#[test]
fn scheduled_drops_count_data_packets_after_service() {
    let mut lossy = node(12e6, None, 0.0);
    lossy.drop_packets = vec![2, 3];
    let ack = Numbered {
        number: 100,
        bytes: 40,
        is_ack: true,
    };
    let entering = [
        (0, data(0)),
        (0, ack),
        (0, data(1)),
        (0, data(2)),
        (0, data(3)),
    ];
    let (arrived, losses) = carry(Chain::new(&[lossy], 0, 0.0, 1), &entering);
    // The ACK is not counted. Lost packets have used the link: the last leaves after 4 * 1 ms + 40 B * 8 / 12 Mbit/s.
    let numbers: Vec<_> = arrived.iter().map(|&(_, number)| number).collect();
    assert_eq!(numbers, [0, 100, 3]);
    assert_eq!(arrived[2].0, 4_000_000 + 26_667);
    let lost: Vec<_> = losses
        .iter()
        .map(|loss| (loss.packet.number, loss.reason))
        .collect();
    assert_eq!(lost, [(1, Reason::Scheduled), (2, Reason::Scheduled)]);
}

#[test]
fn random_loss_is_seeded_spares_acks_forward_and_takes_only_acks_back() {
    let mut lossy = node(1e9, None, 0.0);
    lossy.loss = 0.1;
    let lost = |seed| -> Vec<usize> {
        let (_, losses) = carry(
            Chain::new(std::slice::from_ref(&lossy), 0, 0.0, seed),
            &train(10_000),
        );
        losses.iter().map(|loss| loss.packet.number).collect()
    };
    assert_eq!(lost(7), lost(7));
    assert_ne!(lost(7), lost(8));
    // 1000 expected, standard deviation 30.
    assert!((880..1120).contains(&lost(7).len()), "{}", lost(7).len());

    let mixed: Vec<_> = (0..2000)
        .map(|number| {
            let is_ack = number % 2 == 1;
            let packet = Numbered {
                is_ack,
                ..data(number)
            };
            (0, packet)
        })
        .collect();
    let (_, losses) = carry(Chain::new(&[], 1000, 0.5, 3), &mixed);
    assert!(
        losses
            .iter()
            .all(|loss| loss.packet.is_ack && loss.reason == Reason::AckLoss)
    );
    assert!((400..600).contains(&losses.len()));
}

proptest! {
    /// Lindley's recursion: a packet starts when it has arrived and the one before it has left.
    #[test]
    fn departures_follow_lindleys_recursion(
        gaps in prop::collection::vec((0i64..3_000_000, 40u32..1500), 1..120),
        places in 1u64..12,
    ) {
        let mut now = 0;
        let entering: Vec<_> = gaps.iter().enumerate().map(|(number, &(gap, bytes))| {
            now += gap;
            (now, Numbered { number, bytes, is_ack: false })
        }).collect();
        let (arrived, losses) = carry(Chain::new(&[node(8e6, Some(places), 5e6)], 0, 0.0, 1), &entering);

        // 8 Mbit/s: one microsecond a byte. `leaving` holds the departure times of those still in the node.
        let mut expected = Vec::new();
        let mut lost = 0;
        let mut leaving: Vec<i64> = Vec::new();
        for &(time, packet) in &entering {
            leaving.retain(|&departure| departure > time);
            if leaving.len() as u64 > places {
                lost += 1;
                continue;
            }
            let start = leaving.last().copied().unwrap_or(time).max(time);
            let departure = start + 1000 * i64::from(packet.bytes);
            leaving.push(departure);
            expected.push((departure + 5_000_000, packet.number));
        }
        prop_assert_eq!(arrived, expected);
        prop_assert_eq!(losses.len(), lost);
    }

    /// Late wake-ups change nothing: advancing in other steps gives the same departures.
    #[test]
    fn when_it_is_woken_does_not_matter(
        gaps in prop::collection::vec(0i64..2_000_000, 1..60),
        wakes in prop::collection::vec(0i64..500_000, 0..200),
    ) {
        let nodes = [node(12e6, Some(5), 1e6), node(6e6, Some(3), 1e6)];
        let mut now = 0;
        let entering: Vec<_> = gaps.iter().enumerate().map(|(number, gap)| { now += gap; (now, data(number)) }).collect();
        let (plain, _) = carry(Chain::new(&nodes, 0, 0.0, 1), &entering);

        let mut chain = Chain::new(&nodes, 0, 0.0, 1);
        let (mut arrived, mut losses) = (Vec::new(), Vec::new());
        let mut wake_at = wakes.iter().scan(0, |sum, gap| { *sum += gap; Some(*sum) }).peekable();
        for &(time, packet) in &entering {
            while let Some(wake) = wake_at.next_if(|&wake| wake <= time) {
                chain.advance(wake, &mut arrived, &mut losses);
            }
            chain.advance(time, &mut arrived, &mut losses);
            chain.enter(time, packet, &mut losses);
        }
        chain.advance(i64::MAX / 2, &mut arrived, &mut losses);
        let arrived: Vec<_> = arrived.into_iter().map(|(time, packet)| (time, packet.number)).collect();
        prop_assert_eq!(arrived, plain);
    }
}

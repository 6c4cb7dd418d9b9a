//! Rows by the short ways.

use super::*;

/// The rows of both directions of a conversation with holes, segments sent again and duplicate ACKs; `is_cut`: no packet
/// takes a short way.
fn rows(wanted: Wanted, is_cut: bool) -> Vec<String> {
    let mut wire = Wire {
        table: ConnectionTable::new(wanted),
        ..Wire::new()
    }
    .opened();
    let client = |offset: u32| CLIENT_ISN.wrapping_add(1).wrapping_add(offset);
    let (mut sent, mut acked, mut replied, mut drawn) = (0, 0, SERVER_ISN + 1, 1_u32);
    for time in 60..1000 {
        drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut segment = match drawn >> 24 {
            0..5 => {
                sent += 2000;
                wire.segment(true, ACK, client(sent - 1000), replied, 1000)
            }
            5..15 => wire.segment(true, ACK, client(acked), replied, 1000),
            15..130 => {
                sent += 1000;
                wire.segment(true, ACK, client(sent - 1000), replied, 1000)
            }
            130..140 => wire.segment(false, ACK, replied, client(acked), 0),
            140..230 => {
                acked += (sent - acked).min(2000);
                wire.segment(false, ACK, replied, client(acked), 0)
            }
            230..245 => {
                replied += 300;
                wire.segment(false, ACK, replied - 300, client(acked), 300)
            }
            _ => wire.segment(true, ACK, client(sent), replied, 0),
        };
        segment.options.malformed = is_cut;
        wire.table.push(time * MS, &segment);
    }
    let connection = wire.table.detailed(0).expect("rows are kept");
    let both = [0, 1].map(|from| format!("{:?}", connection.take_tables(from)));
    assert!(both.iter().all(|rows| rows.len() > 10_000));
    both.into()
}

#[test]
fn rows_are_the_same_by_the_short_ways_as_by_the_long_one() {
    for wanted in [Wanted::All, Wanted::Rows] {
        assert_eq!(rows(wanted.clone(), false), rows(wanted, true));
    }
}

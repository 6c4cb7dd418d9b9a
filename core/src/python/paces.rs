//! How fast data went, as numpy arrays: runs of ACKs, the busiest second, a line before the bottleneck; what windows
//! allowed, and what ACKs tell of round trips.

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::columns::{Array, Column, unequal};
use crate::infer::path::{bucket, covered, line, runs};
use crate::infer::tap::together::{self, Together};
use crate::infer::tap::{offered, releases};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(runs_of, module)?)?;
    module.add_function(wrap_pyfunction!(busiest, module)?)?;
    module.add_function(wrap_pyfunction!(waits, module)?)?;
    module.add_function(wrap_pyfunction!(token_bucket, module)?)?;
    module.add_function(wrap_pyfunction!(read_together, module)?)?;
    module.add_function(wrap_pyfunction!(beyond_offered, module)?)?;
    module.add_function(wrap_pyfunction!(covered_round_trips, module)?)?;
    module.add_function(wrap_pyfunction!(releasing, module)?)
}

/// Columns of equal length.
fn alike(lengths: &[usize]) -> PyResult<()> {
    if lengths.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(unequal());
    }
    Ok(())
}

/// Begin and latest end of loss events, in order.
type Events<'py> = (Column<'py, i64>, Column<'py, i64>);

fn events(each: &Events<'_>) -> PyResult<runs::Events> {
    let (begin, end) = (each.0.as_slice()?, each.1.as_slice()?);
    alike(&[begin.len(), end.len()])?;
    Ok(runs::Events::new(begin, end))
}

type Runs<'py> = (Vec<Array<'py, f64>>, Vec<Array<'py, bool>>);

/// (rates, spans_ns, delay_ns, least_ns, uneven), (slowed, compressed) of the runs of so many segments over batches
/// (times, acked, jumps) that no flow's events touch; `rtt`: when round trips were known, and how long each is
/// (infer/path/runs.rs).
#[pyfunction]
#[pyo3(name = "runs", signature = (batches, rtt, flows, *, segments, fewest_batches, slowed, compressed))]
#[expect(
    clippy::too_many_arguments,
    reason = "what is asked for, each by its name in Python"
)]
fn runs_of<'py>(
    py: Python<'py>,
    batches: (Column<'py, i64>, Column<'py, f64>, Column<'py, i32>),
    rtt: (Column<'py, i64>, Column<'py, i64>),
    flows: Vec<Events<'py>>,
    segments: f64,
    fewest_batches: usize,
    slowed: f64,
    compressed: f64,
) -> PyResult<Runs<'py>> {
    let batches = runs::Batches {
        times: batches.0.as_slice()?,
        acked: batches.1.as_slice()?,
        jumps: batches.2.as_slice()?,
    };
    alike(&[
        batches.times.len(),
        batches.acked.len(),
        batches.jumps.len(),
    ])?;
    let known = runs::RoundTrips {
        times: rtt.0.as_slice()?,
        rtt_ns: rtt.1.as_slice()?,
    };
    alike(&[known.times.len(), known.rtt_ns.len()])?;
    let flows = flows.iter().map(events).collect::<PyResult<Vec<_>>>()?;
    let asked = runs::Asked {
        segments,
        fewest_batches,
        slowed,
        compressed,
    };
    let found = py.detach(|| batches.runs(asked, &flows, known));
    let numbers = [
        found.rates,
        found.spans_ns,
        found.delay_ns,
        found.least_ns,
        found.uneven,
    ];
    let flags = [found.slowed, found.compressed];
    Ok((
        numbers.map(|each| each.into_pyarray(py)).into(),
        flags.map(|each| each.into_pyarray(py)).into(),
    ))
}

/// The most by which `una` rose within a second, the largest step of it and seconds with an event in them apart.
#[pyfunction]
fn busiest(
    times: Column<'_, i64>,
    una: Column<'_, i64>,
    second_ns: i64,
    flow: Events<'_>,
) -> PyResult<Option<i64>> {
    let (times, una) = (times.as_slice()?, una.as_slice()?);
    alike(&[times.len(), una.len()])?;
    Ok(runs::busiest(times, una, second_ns, &events(&flow)?))
}

/// How full a bucket that empties at a rate (packets/s) has to be to lose one of these packets (what had passed before
/// each, ns after the first, whether it was lost), and how well that tells who was (infer/path/bucket.rs).
#[pyfunction]
fn token_bucket(
    py: Python<'_>,
    packets: (Column<'_, f64>, Column<'_, f64>, Column<'_, bool>),
    rate: f64,
) -> PyResult<Option<(f64, f64)>> {
    let packets = bucket::Packets {
        before: packets.0.as_slice()?,
        after_ns: packets.1.as_slice()?,
        is_lost: packets.2.as_slice()?,
    };
    alike(&[
        packets.before.len(),
        packets.after_ns.len(),
        packets.is_lost.len(),
    ])?;
    Ok(py.detach(|| bucket::depth(packets, rate)))
}

/// Of each send the ns that it would wait on a line of so many segments of `smss` bytes a second
/// (infer/path/line.rs).
#[pyfunction]
fn waits<'py>(
    py: Python<'py>,
    send_ns: Column<'py, i64>,
    send_offset: Column<'py, i64>,
    send_end: Column<'py, i64>,
    smss: i64,
    rate: f64,
) -> PyResult<Array<'py, f64>> {
    let (send_ns, begin, end) = (
        send_ns.as_slice()?,
        send_offset.as_slice()?,
        send_end.as_slice()?,
    );
    alike(&[send_ns.len(), begin.len(), end.len()])?;
    let spent = |at: usize| (end[at] - begin[at]) as f64 / smss as f64 / rate * 1e9;
    Ok(line::waits(send_ns, spent).into_pyarray(py))
}

/// Of segments (offset, length, is_retransmission, passed) of new data how many there are, how many end beyond what the
/// ACKs (edge, rwnd, is_scaled) before them offered with windows scaled by `shift`, and beyond the next as well.
#[pyfunction]
fn beyond_offered(
    segments: (
        Column<'_, i64>,
        Column<'_, i64>,
        Column<'_, bool>,
        Column<'_, i32>,
    ),
    acks: (Column<'_, i64>, Column<'_, i64>, Column<'_, bool>),
    shift: u32,
    slack: i64,
) -> PyResult<[usize; 3]> {
    let sent = offered::Sent {
        offset: segments.0.as_slice()?,
        length: segments.1.as_slice()?,
        is_retransmission: segments.2.as_slice()?,
        passed: segments.3.as_slice()?,
    };
    let acks = offered::Offered {
        edge: acks.0.as_slice()?,
        rwnd: acks.1.as_slice()?,
        is_scaled: acks.2.as_slice()?,
    };
    let lengths = [
        sent.offset.len(),
        sent.length.len(),
        sent.is_retransmission.len(),
    ];
    alike(&[&lengths[..], &[sent.passed.len()]].concat())?;
    alike(&[acks.edge.len(), acks.rwnd.len(), acks.is_scaled.len()])?;
    Ok(offered::beyond(sent, acks, shift, slack))
}

/// Of each ACK the round trip of the last segment that it covers, -1: none (infer/path/covered.rs).
#[pyfunction]
fn covered_round_trips<'py>(
    py: Python<'py>,
    sends: (
        Column<'py, i64>,
        Column<'py, i64>,
        Column<'py, i64>,
        Column<'py, bool>,
    ),
    acks: (Column<'py, i64>, Column<'py, i64>, Column<'py, i64>),
    first: i64,
    smss: i64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let flow = covered::Flow {
        send_ns: sends.0.as_slice()?,
        send_offset: sends.1.as_slice()?,
        send_end: sends.2.as_slice()?,
        is_retransmission: sends.3.as_slice()?,
        ack_ns: acks.0.as_slice()?,
        snd_una: acks.1.as_slice()?,
        newly_acked: acks.2.as_slice()?,
        first,
        smss,
    };
    alike(&[
        flow.send_ns.len(),
        flow.send_offset.len(),
        flow.send_end.len(),
        flow.is_retransmission.len(),
    ])?;
    alike(&[
        flow.ack_ns.len(),
        flow.snd_una.len(),
        flow.newly_acked.len(),
    ])?;
    Ok(covered::round_trips(flow).into_pyarray(py))
}

/// (the ACK that released each send, how many bytes behind each ACK may belong to others): sends (bytes, low, high,
/// is_put_back) in the order of leaving, what had been delivered at each ACK (infer/tap/releases.rs).
#[pyfunction]
fn releasing<'py>(
    py: Python<'py>,
    sends: (
        Column<'py, i64>,
        Column<'py, i32>,
        Column<'py, i32>,
        Column<'py, bool>,
    ),
    delivered: Column<'py, i64>,
    first: i64,
    smss: i64,
    by_echo: bool,
) -> PyResult<(Array<'py, i32>, Array<'py, i64>)> {
    let sends = releases::Sends {
        bytes: sends.0.as_slice()?,
        low: sends.1.as_slice()?,
        high: sends.2.as_slice()?,
        is_put_back: sends.3.as_slice()?,
    };
    alike(&[sends.bytes.len(), sends.low.len(), sends.high.len()])?;
    alike(&[sends.bytes.len(), sends.is_put_back.len()])?;
    let delivered = delivered.as_slice()?;
    let (found, slack) = py.detach(|| releases::released(sends, delivered, first, smss, by_echo));
    Ok((found.into_pyarray(py), slack.into_pyarray(py)))
}

type AtOnce<'py> = ([Array<'py, i64>; 4], [Array<'py, f64>; 2]);

/// (begins_ns, ends_ns, how many more, before_ns), (due_ns, first_ns) of the runs of ACKs that came at once
/// (infer/tap/together.rs).
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "what is asked for, each by its name in Python"
)]
#[pyo3(signature = (ack_ns, newly_acked, smss, *, at_once_ns, share, fewest, segments))]
fn read_together<'py>(
    py: Python<'py>,
    ack_ns: Column<'py, i64>,
    newly_acked: Column<'py, i64>,
    smss: i64,
    at_once_ns: i64,
    share: f64,
    fewest: usize,
    segments: i64,
) -> PyResult<AtOnce<'py>> {
    let (ack_ns, newly_acked) = (ack_ns.as_slice()?, newly_acked.as_slice()?);
    alike(&[ack_ns.len(), newly_acked.len()])?;
    let at_once = together::AtOnce {
        ns: at_once_ns,
        share,
        fewest,
        segments,
    };
    let found = py.detach(|| together::together(ack_ns, newly_acked, smss.max(1), at_once));
    let whole = |value: fn(&Together) -> i64| {
        let values: Vec<_> = found.iter().map(value).collect();
        values.into_pyarray(py)
    };
    let real = |value: fn(&Together) -> f64| {
        let values: Vec<_> = found.iter().map(value).collect();
        values.into_pyarray(py)
    };
    Ok((
        [
            whole(|run| run.begins_ns),
            whole(|run| run.ends_ns),
            whole(|run| run.more),
            whole(|run| run.before_ns),
        ],
        [real(|run| run.due_ns), real(|run| run.first_ns)],
    ))
}

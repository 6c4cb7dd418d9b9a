"""Verdicts on captures of the real kernel, whose own window is the truth (`measured` in the JSON beside each)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tcptrace_lab import read
from tcptrace_lab.classify.verdict import classify
from tests.conftest import shared


@cache
def verdicts(path: Path) -> tuple[dict[str, Any], ...]:
    return tuple(verdict.as_dict() for verdict in classify(read(path)))


def verdict(name: str) -> dict[str, Any]:
    return verdicts(shared("captures", "kernel", f"{name}.pcap.gz"))[0]


def truth(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shared("captures", "kernel", f"{name}.json").read_text())
    return found


def measured(name: str) -> dict[str, Any]:
    facts = truth(name)
    found: dict[str, Any] = facts["measured"][str(facts["addresses"]["client_ports"][0])]
    return found


TAHOE = ("tahoe_sat_B20", "tahoe_sat_B22", "utahoe_sat_B20", "utahoe_sat_B18")


@pytest.mark.parametrize("name", TAHOE)
def test_slow_starts_in_each_cycle_are_the_kernels(name: str) -> None:
    """Barakat & Altman 1998, section 1: a loss in slow start belongs to its cycle, one in avoidance begins the next."""
    wanted = [cycle["slow_starts"] for cycle in measured(name)["cycles_from_truth"]]
    assert verdict(name)["slow_starts"]["per_cycle"] == wanted


@pytest.mark.parametrize("name", TAHOE)
def test_thresholds_of_slow_starts_are_the_kernels(name: str) -> None:
    """RFC 5681 equation (4) as the sender applied it: each slow start ends at the ssthresh its loss had set."""
    events = measured(name)["loss_events"]
    set_before = {round(event["ssthresh_after"]) for event in events}
    for cycle in verdict(name)["slow_starts"]["cycles"]:
        reached = [at for at in cycle["ssthresh"] if at is not None]
        assert reached
        assert all(min(abs(at - value) for value in set_before) <= 1 for at in reached)


@pytest.mark.parametrize("name", ["reno_10M", "cubic_20M"])
def test_fast_recovery_leaves_one_slow_start_in_the_first_cycle(name: str) -> None:
    """No loss of these runs was a timeout: after the connection's own, no slow start follows."""
    assert {event["kind"] for event in measured(name)["loss_events"]} == {"fast_retransmit"}
    found = verdict(name)["slow_starts"]
    assert found["per_cycle"][0] == 1
    assert not any(found["per_cycle"][1:])
    assert found["regime"] == "none"


@pytest.mark.parametrize("name", ["short_reno", "reno_rwnd"])
def test_a_run_without_loss_is_one_slow_start(name: str) -> None:
    """Nothing was lost, so nothing can have begun a second slow start."""
    assert measured(name)["loss_events"] == []
    assert verdict(name)["slow_starts"]["per_cycle"] == [1]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("reno_onoff", "application"),
        ("bbr_20M", "paces"),
    ],
)
def test_what_cannot_be_seen_is_undecided_with_the_reason(name: str, word: str) -> None:
    """Idle application, a rate-based sender."""
    found = verdict(name)
    assert found["slow_starts"]["regime"] == "undecided"
    assert word in " ".join(found["reasons"])


def test_where_the_window_is_not_seen_the_order_tells_the_regime() -> None:
    """Away from the sender and without timestamps: no cycles, but who goes on behind a repair has not restarted."""
    found, whole = verdict("reno_nots_rcvcap.rcv"), verdict("reno_nots_rcvcap")
    assert found["slow_starts"]["regime"] == whole["slow_starts"]["regime"] == "none"
    assert found["slow_starts"]["cycles"] == []
    assert "receiver" in " ".join(found["reasons"])


def test_a_capture_from_the_middle_shows_the_steady_state() -> None:
    """Whole cycles without a slow start are none, whether the connection's beginning was captured or not."""
    found = verdict("midstart_cubic")
    assert found["slow_starts"]["regime"] == "none"
    assert found["slow_starts"]["initial"] is None
    assert "middle" in " ".join(found["reasons"])
    # What CUBIC remembered from before is not held against it.
    assert found["sender_tcp"]["congestion_control"] == "cubic"


def test_a_shaper_before_the_tap_is_the_bottleneck() -> None:
    """The sender's own shaper (1 Mbit/s) lets a super-segment out every 12 ms, and ACKs are back in 0.2 ms: what its
    segments echo tells that they waited for a tenth of a second, and so what its window was."""
    (found,) = verdicts(shared("captures", "public", "usi-reno-flow.pcapng"))
    assert "behind a queue" in " ".join(found["reasons"])
    assert found["limits"]["cwnd"] > 0.9
    low, high = (found["path"]["bottleneck_bps"][bound] for bound in ("low", "high"))
    # Less the 14 bytes of Ethernet in 1,514.
    assert low <= 0.991e6 <= high
    assert "kbit/s bottleneck" in found["diagnosis"]
    # Of ten pairs that its own queue dropped, by the host's numbers, eight were sent again sooner than a loss can be
    # told from what was late: when they were lost is not claimed.
    assert "loses packets 3 times or more" in found["diagnosis"]
    assert found["losses"]["possible_unseen"] >= 16
    assert "reno" in [each["name"] for each in found["sender_tcp"]["candidates"] if each["against"] is None]


CLEAN = (
    *("bbr_20M", "ctcp_case1_50M", "ctcp_case3_g90", "cubic_20M", "cubic_gso_50M", "cubic_v6_multinode", "reno_10M"),
    *("reno_nosack_8M", "reno_nots_rcvcap", "tahoe_sat_B20", "utahoe_sat_B18"),
)


@pytest.mark.parametrize("name", CLEAN)
def test_path_is_the_emulators(name: str) -> None:
    """Rate to 1 %, round trip to 1 %, buffer to one packet: the emulator's own parameters."""
    path, derived = verdict(name)["path"], truth(name)["derived"]
    assert path["bottleneck_bps"]["value"] == pytest.approx(derived["bottleneck_rate_bps"], rel=0.01)
    assert path["base_rtt_s"]["value"] == pytest.approx(derived["rtt_min_us"] / 1e6, rel=0.01)
    assert path["bdp_packets"]["value"] == pytest.approx(derived["bdp_pkts"], rel=0.02)
    buffer = derived["buffer_pkts_excl_in_service"]
    assert path["buffer_packets"]["value"] == pytest.approx(buffer, abs=1)
    assert path["buffer_packets"]["low"] <= buffer <= path["buffer_packets"]["high"]


@pytest.mark.parametrize("name", ["reno_loss", "reno_acked_sched"])
def test_losses_away_from_a_full_queue_are_no_overflow(name: str) -> None:
    """The emulator dropped these packets at random or by number: its queue was never full."""
    found = verdict(name)
    assert found["path"]["buffer_packets"]["value"] is None
    assert "overflow" not in found["losses"]["by_cause"]
    assert found["losses"]["total"] == sum(truth(name)["measured"]["drops_by_reason"].values())


@pytest.mark.parametrize("name", [*CLEAN, "mstart_20M"])
def test_losses_counted_are_the_packets_dropped(name: str) -> None:
    """Every drop, also where a restarted sender sent again what had arrived."""
    wanted = sum(truth(name)["measured"]["drops_by_reason"].values())
    assert verdict(name)["losses"]["total"] == wanted


def test_m_start_is_seen_with_its_cycle_of_steps() -> None:
    """Patel & Ganatra 2017, as the kernel module counts: steps 10, 9, ... 0, then again."""
    assert verdict("mstart_20M")["m_start"] == {"detected": True, "step_cycle": list(range(10, -1, -1))}
    assert verdict("reno_10M")["m_start"] == {"detected": False, "step_cycle": None}


@pytest.mark.parametrize(
    ("name", "recovery"), [("tahoe_sat_B20", "tahoe"), ("reno_10M", "sack"), ("reno_nosack_8M", "newreno")]
)
def test_recovery_is_told_by_what_followed_the_duplicate_acks(name: str, recovery: str) -> None:
    """RFC 5681 section 3.2, RFC 6582, RFC 6675."""
    assert verdict(name)["sender_tcp"]["recovery"] == recovery


def test_receivers_window_is_named_as_the_limit() -> None:
    """A receive buffer of 60 kB below a path of 68 packets."""
    assert verdict("reno_rwnd")["limits"]["rwnd"] > 0.9


KEYS = {
    *(
        "file",
        "connection",
        "sender",
        "receiver",
        "vantage",
        "diagnosis",
        "tap",
        "path",
        "sender_tcp",
        "initial_window",
        "slow_starts",
    ),
    *("m_start", "compound", "losses", "limits", "predictions", "agreement", "reasons"),
}


def test_verdict_has_the_keys_of_the_format() -> None:
    """The JSON of `classify --json`."""
    found = verdict("tahoe_sat_B22")
    assert set(found) == KEYS
    assert set(found["path"]["buffer_packets"]) == {"value", "low", "high", "method"}
    assert set(found["slow_starts"]) == {"per_cycle", "initial", "steady", "regime", "cycles"}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_two_flows_together_show_the_rate_that_neither_has() -> None:
    """The second flow never has the bottleneck for itself: alone it would show its share."""
    found = list(classify(read(shared("captures", "kernel", "two_reno_cubic.pcap.gz"))))
    assert len(found) == 2
    for verdict in found:
        assert verdict.path.bottleneck_bps.value == pytest.approx(16e6, rel=0.01)
        assert verdict.path.buffer_packets.value == pytest.approx(60, abs=2)

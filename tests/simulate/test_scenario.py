"""Scenario files: what they say is what the engine gets; what cannot be run is refused by its key."""

import math
from dataclasses import replace

import pytest

from tcptrace_lab.controls import WINDOWS
from tcptrace_lab.errors import ScenarioError
from tcptrace_lab.scenario import (
    CONTROLS,
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    RtoSpec,
    Scenario,
)
from tcptrace_lab.scenario_file import load, parse, scenario_table
from tcptrace_lab.simulate import simulate
from tests.conftest import ROOT

SCENARIOS = sorted((ROOT / "captures" / "scenarios").glob("*.toml"))
SMALL = """
duration_s = 10
control = "reno"
[path]
nodes = [{ rate_bps = 1e6, buffer = 20, delay_s = 0.02 }]
return_delay_s = 0.02
"""


@pytest.fixture
def small(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_every_shipped_scenario_reads_and_says_what_it_shows(file):
    scenario = load(file)
    assert file.read_text().startswith("# ")
    assert scenario.title
    assert parse(scenario_table(scenario)) == scenario


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("path.nodes.0.rate_bps=-5", "path.nodes.0.rate_bps = -5: must be > 0"),
        ("path.nodes.0.rate_bps=nan", "path.nodes.0.rate_bps = nan: must be > 0"),
        ("path.nodes.0.buffer=0", "path.nodes.0.buffer = 0: must be >= 1"),
        ("path.nodes.0.buffer=2.5", "path.nodes.0.buffer = 2.5: must be a whole number"),
        ("path.nodes.0.buffer=many", 'path.nodes.0.buffer = "many": must be a number'),
        ("path.nodes.0.bufer=3", "path.nodes.0.bufer: unknown key (did you mean buffer?)"),
        ("path.nodes.1.buffer=3", "path.nodes.1: must be a place in a list of 1 (0 to 0)"),
        ("path.nodes=[]", "path.nodes = []: must be one node or more"),
        ("path.nodes.0.buffer.x=1", "path.nodes.0.buffer.x: path.nodes.0.buffer is a single value, not a table"),
        ("control=tahoee", "(did you mean tahoe?)"),
        ("control.window=tahoo", 'control.window = "tahoo": must be one of reno, cubic'),
        ("control.rto.min=3", "control.rto.min: unknown key (did you mean min_s?)"),
        (
            "path.nodes.0.buffer=1e30",
            "path.nodes.0.buffer = 1000000000000000000000000000000.0: must be >= 1 and <= 2^53",
        ),
        ("path.nodes.0.delay_s=1e12", "path.nodes.0.delay_s = 1000000000000.0: must be >= 0 and < 1e9"),
        ("control.initial_window=10000000000", "control.initial_window = 10000000000: must be >= 1 and <= 2^30"),
        ("control.initial_window=0", "control.initial_window = 0: must be >= 1"),
        ("receiver.delayed_ack_timer_s=0.6", "receiver.delayed_ack_timer_s = 0.6: must be > 0 and <= 0.5"),
        ("application.kind=bytes", "application.bytes = 0: must be > 0 with kind bytes"),
        (
            "application.writes=[[1, 5], [0.5, 5]]",
            "application.writes = [[1.0, 5], [0.5, 5]]: must be absent with kind bulk",
        ),
        ("profile=ns3", 'profile = "ns3": must be one of ns2, rfc'),
        ("seed=1.5", "seed = 1.5: must be a whole number"),
        ("taps=['node1.in']", 'taps.0 = "node1.in": must be sender, receiver, or node0.in'),
        ("conections=[]", "conections: unknown key (did you mean connections?)"),
        ("duration_s=0", "duration_s = 0: must be >= 0.000000001"),
        ("duration_s", "duration_s: must be KEY=VALUE"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line_that_names_the_key(small, override, message):
    with pytest.raises(ScenarioError) as caught:
        load(small, overrides=[override])
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(small))
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_named(small):
    small.write_text(SMALL.replace("rate_bps = 1e6, ", ""))
    with pytest.raises(ScenarioError, match=r"path\.nodes\.0\.rate_bps: missing"):
        load(small)


def test_a_file_that_is_not_toml_or_not_there_is_named(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("path = [")
    with pytest.raises(ScenarioError, match=r"broken\.toml: not TOML"):
        load(broken)
    with pytest.raises(ScenarioError, match=r"absent\.toml: No such file"):
        load(tmp_path / "absent.toml")


def test_an_override_replaces_one_value_and_leaves_the_others(small):
    scenario = load(small, overrides=["path.nodes.0.buffer=7", "control.initial_window=4", "receiver.rwnd=50000"])
    assert scenario.path.nodes[0] == NodeSpec(rate_bps=1e6, buffer=7, delay_s=0.02)
    # `control = "reno"` stays reno when one of its fields is set.
    assert scenario.control == ControlSpec(recovery="reno", initial_window=4)
    assert scenario.connections[0].receiver.rwnd == 50000


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_may_be_a_name_or_start_from_one(small, name):
    control = ControlSpec(**CONTROLS[name])
    # TCP-LP runs on ns-2's agent only.
    profile = f"profile={WINDOWS[control.window].profiles[-1]}"
    by_name = load(small, overrides=[f"control={name}", profile]).control
    assert by_name == control
    changed = load(small, overrides=[f"control={{name='{name}', initial_window=3}}", profile]).control
    assert changed == replace(by_name, initial_window=3)


def test_what_stands_at_the_top_holds_for_every_connection_that_does_not_say_otherwise():
    table = {
        "duration_s": 1,
        "path": {"nodes": [{"rate_bps": 1e6}]},
        "control": "tahoe",
        "receiver": {"delayed_ack_segments": 2},
        "connections": [{}, {"control": "cubic", "start_s": 0.5}],
    }
    first, second = parse(table).connections
    assert (first.control.recovery, second.control.window) == ("tahoe", "cubic")
    assert (first.control.delayed_ack_segments, second.control.delayed_ack_segments) == (2, 2)
    assert (first.start_s, second.start_s) == (0, 0.5)


def test_a_common_table_that_no_connection_uses_is_refused():
    table = {"duration_s": 1, "path": {"nodes": [{"rate_bps": 1e6}]}, "control": "reno"}
    with pytest.raises(ScenarioError, match="control: every connection has its own"):
        parse({**table, "connections": [{"control": "cubic"}]})


def test_the_access_link_is_a_node_before_the_first():
    path = PathSpec(nodes=(NodeSpec(rate_bps=1.5e6, buffer=20, delay_s=0.28),), access_rate_bps=10e6)
    application = ApplicationSpec(kind="bytes", bytes=1000)
    connections = (ConnectionSpec(application=application),)
    scenario = Scenario(path=path, connections=connections, duration_s=5, taps=("sender", "node0.in"))
    run = simulate(scenario)
    assert list(run.nodes["node"]) == [-1, 0]
    # Handshake and data reach the queue behind the access link; what comes back passes there as well.
    assert len(run.packets(tap="node0.in")) == len(run.packets(tap="sender"))
    assert run.packets(tap="node0.in")["time_ns"].iloc[0] > run.packets(tap="sender")["time_ns"].iloc[0]
    without = simulate(replace(scenario, path=replace(path, access_rate_bps=math.inf)))
    assert list(without.nodes["node"]) == [0]


def test_a_return_delay_beside_reverse_nodes_stands_behind_them():
    path = PathSpec(nodes=(NodeSpec(rate_bps=1e6),), reverse=(NodeSpec(rate_bps=1e5),), return_delay_s=0.25)
    run = simulate(Scenario(path=path, connections=(ConnectionSpec(),), duration_s=1))
    assert list(run.nodes[run.nodes["is_reverse"]]["node"]) == [0, 1]
    # SYN there (40 bytes at 1 Mbit/s), SYN-ACK back (44 bytes at 100 kbit/s and 250 ms).
    answer = run.packets()["time_ns"].iloc[1]
    assert 0.25e9 < answer < 0.26e9


def test_base_rtt_counts_every_transmission_of_a_packet_and_its_ack():
    # 512 B at 10 and 1.5 Mbit/s: 0.4096 + 2.7307 ms; the ACK's 40 B back: 0.2133 + 0.032 ms; 560 ms of propagation.
    scenario = load(ROOT / "captures" / "scenarios" / "small_buffers_B20.toml")
    assert scenario.path.base_rtt_s == pytest.approx(0.5633856, abs=1e-7)
    assert scenario.path.propagation_rtt_s == pytest.approx(0.56)
    assert scenario.path.mu_pps == pytest.approx(366.2109, abs=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RtoSpec(min_s=2, max_s=1),
        lambda: ApplicationSpec(kind="bulk", bytes=10),
        lambda: ApplicationSpec(kind="schedule", writes=((1.0, 10), (0.5, 10))),
        lambda: ConnectionSpec(start_s=-1),
        lambda: NodeSpec(rate_bps=1e6, loss=1.0),
        lambda: NodeSpec(rate_bps=1e6, drop_packets=(0,)),
        lambda: PathSpec(nodes=()),
        lambda: Scenario(
            path=PathSpec(nodes=(NodeSpec(rate_bps=1e6),), packet_bytes=60),
            connections=(ConnectionSpec(),),
            duration_s=1,
        ),
    ],
)
def test_values_built_in_python_are_checked_as_well(make):
    with pytest.raises(ScenarioError, match="must be"):
        make()


@pytest.mark.parametrize("override", ["control.name=reno", "control.window=reno", "control=reno"])
def test_a_controls_parameters_go_with_it(small, override):
    """What had one value for the control that was there before has no say in the new one's."""
    loaded = load(small, overrides=["control.name=compound", "control.gamma=10", override])
    assert {each.control.window for each in loaded.connections} == {"reno"}
    assert loaded == load(small, overrides=["control.name=compound", override])


def test_the_names_of_the_release_before_are_still_found() -> None:
    """A notebook written with 0.2 runs."""
    from tcptrace_lab import scenario

    assert scenario.Path is scenario.PathSpec
    assert scenario.Connection is scenario.ConnectionSpec
    with pytest.raises(AttributeError, match="Street"):
        scenario.Street  # noqa: B018

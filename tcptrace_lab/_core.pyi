"""The Rust core (core/src/python)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

__version__: str
# Revision, profile and compiler.
BUILD: str

class OwnSender:
    """One connection of a scenario, sent by this project's own code over a TUN descriptor (Linux only)."""

    def __new__(
        cls,
        scenario: Mapping[str, Any],
        connection: int,
        device_fd: int,
        source: tuple[str, int],
        destination: tuple[str, int],
    ) -> OwnSender: ...
    def run(self, drain_s: float) -> dict[str, Any]:
        """Sends for the scenario's duration and waits for the end; what it knew, as columns."""

    def stop(self) -> None: ...

class Emulator:
    """Two open, non-blocking TUN descriptors joined by a scenario's path (Linux only)."""

    def __new__(cls, scenario: Mapping[str, Any], sender_fd: int, receiver_fd: int) -> Emulator: ...
    @property
    def nodes_before(self) -> int: ...
    def run(self) -> dict[str, Any]:
        """Carries packets until `stop` is called from another thread; what happened, as columns."""

    def stop(self) -> None: ...

class Capture:
    """A followed capture; per-segment columns exist for the connections that were asked for."""

    @property
    def name(self) -> str: ...
    @property
    def packets(self) -> int: ...
    @property
    def segments(self) -> int: ...
    @property
    def undecoded(self) -> dict[str, int]: ...
    @property
    def unknown_link_type(self) -> str | None: ...
    @property
    def truncated(self) -> tuple[int, str] | None: ...
    def __len__(self) -> int: ...
    def connection_columns(self, first: int = 0, count: int | None = None) -> dict[str, Any]: ...
    def connection_column(self, name: str) -> Any: ...
    def accepted(self, filter: str) -> list[int]: ...
    def has_detail(self, id: int, direction: int) -> bool | None: ...
    def end_of(self, id: int, direction: int) -> int: ...
    def take_columns(self, id: int, direction: int) -> tuple[dict[str, Any], dict[str, Any]] | None: ...

class Follower:
    """A connection table that grows as it is fed."""

    def __new__(
        cls, name: str, detail: bool | list[int] | list[tuple[int, int]] | Literal["first"] | None = None
    ) -> Follower: ...
    def push_packet(self, time_ns: int, link_type: int, orig_len: int, data: bytes) -> bool: ...
    def push_columns(self, columns: dict[str, Any], packets: int, not_ip: int, not_tcp: int) -> None: ...
    def set_truncated(self, offset: int, reason: str) -> None: ...
    def capture(self) -> Capture:
        """What was followed so far; the table goes on from there."""

class Observed:
    """What a trace shows of its sender (core/src/infer/sender/observer.rs): tables are dicts of numpy columns."""

    @property
    def first_offset(self) -> int: ...
    @property
    def rtt_ns(self) -> tuple[int, int]: ...
    @property
    def limits(self) -> list[float] | None: ...
    @property
    def starved(self) -> float: ...
    @property
    def possible_losses(self) -> int: ...
    def column(self, name: str) -> Any: ...
    def events(self) -> dict[str, Any]: ...
    def lost(self) -> dict[str, Any]: ...
    def stretches(self) -> dict[str, Any]: ...
    def windows(self) -> dict[str, Any]: ...

class Watcher:
    """Connections as they go, from files, a pipe, or files that grow (core/src/python/watch.rs)."""

    def __new__(
        cls, name: str, paths: list[str], follow: bool = False, detail: bool | list[int] | None = None
    ) -> Watcher: ...
    def stop(self) -> None: ...
    def advance(self, until_ns: int, most: int, to_event: bool, patience_s: float) -> str: ...
    def position(self) -> tuple[int, int | None, int, int]: ...
    def events(self) -> list[dict[str, Any]]: ...
    def events_lost(self) -> int: ...
    def connections(self, most: int) -> list[dict[str, Any]]: ...
    def observe(self, keeps_recent: bool = True) -> None: ...
    def kept_rows(self) -> int: ...
    def recent(self, id: int) -> Capture | None: ...
    def capture(self) -> Capture:
        """What was followed so far, as reading a capture gives it."""

class Records:
    """A file's records: time_ns, link type, length on the wire, bytes captured, endpoints of the TCP segment if any."""

    def __new__(cls, path: str) -> Records: ...
    def __iter__(self) -> Records: ...
    def __next__(self) -> tuple[int, int, int, bytes, tuple[str, int, str, int] | None]: ...

CAUSES: list[str]
SEGMENT_NUMBERS: list[str]
LIMITS: list[str]
FATES: list[str]
DETECTED_BY: list[str]
TAPE_EVENTS: list[str]
LEAST_RTO_NS: int
HOST_NS: int
DELAYED_ACK_SEGMENTS: int
PROMPT_PARTS: int
PAUSE_PARTS: int
BURST_NS: int
FEWEST_SAMPLES: int
DUP_THRESH: int
BBR_MIN_CWND_SEGMENTS: float
BBR_PROBE_RTT_NS: int
BBR_MIN_RTT_WINDOW_NS: int
BBR_CYCLE_ROUNDS: int
DROP_REASONS: list[str]
SENDER_STATES: dict[str, int]
BEGINS: list[Any]
COLUMNS: list[tuple[str, str, str]]

def observe(timeline: Any) -> Observed: ...
def followed(timeline: Any) -> tuple[int, dict[str, Any]]:
    """The first byte, and the columns of `Observed.column` that follow row by row, without the losses."""

def swapped_ns(turn_ns: int) -> int: ...
def scoreboard(ack_offset: Any, sack_first: Any, sack_edges: Any) -> tuple[Any, Any, Any]: ...
def dsacks(ack_offset: Any, sack_first: Any, sack_edges: Any) -> list[tuple[int, int]]: ...
def places(values: Any, keys: Any, *, or_equal: bool = False) -> Any: ...
def in_order(row: Any, offset: Any, end: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds of sends in the order of leaving (core/src/infer/tap/leaving.rs)."""

def least_within(values: Any, first: Any, behind: Any) -> Any: ...
def counts(values: Any) -> tuple[Any, Any]: ...
def runs(
    batches: tuple[Any, Any, Any],
    rtt: tuple[Any, Any],
    flows: Sequence[tuple[Any, Any]],
    *,
    segments: float,
    fewest_batches: int,
    slowed: float,
    compressed: float,
) -> tuple[list[Any], list[Any]]: ...
def busiest(times: Any, una: Any, second_ns: int, flow: tuple[Any, Any]) -> int | None: ...
def token_bucket(packets: tuple[Any, Any, Any], rate: float) -> tuple[float, float] | None: ...
def waits(send_ns: Any, send_offset: Any, send_end: Any, smss: int, rate: float) -> Any: ...
def beyond_offered(
    segments: tuple[Any, Any, Any, Any], acks: tuple[Any, Any, Any], shift: int, slack: int
) -> list[int]: ...
def covered_round_trips(sends: tuple[Any, Any, Any, Any], acks: tuple[Any, Any, Any], first: int, smss: int) -> Any: ...
def releasing(
    sends: tuple[Any, Any, Any, Any], delivered: Any, first: int, smss: int, by_echo: bool
) -> tuple[Any, Any]: ...
def unfilled(holes: Any, begin: Any, upto: Any, offset: Any, end: Any) -> int: ...
def rounds(una: Any, nxt: Any) -> Any: ...
def released(
    opens: Any,
    is_limited: Any,
    has_sent: Any,
    flight: Any,
    first: Any,
    last: Any,
    *,
    slack: int,
    patience: tuple[float, float],
) -> tuple[Any, Any]: ...
def unsteady(flight: Any, acks: Any, ends: Any) -> float: ...
def unwrapped(stamps: Any) -> Any: ...
def merged(sent_ns: Any, heard_ns: Any, passed: Any) -> tuple[Any, Any]: ...
def long_gaps(stamps: Any, least_ns: int) -> tuple[Any, Any]: ...
def is_left_later(sent_ns: Any, heard_ns: Any, passed: Any, patience_ns: int) -> bool: ...
def read_together(
    ack_ns: Any, newly_acked: Any, smss: int, *, at_once_ns: int, share: float, fewest: int, segments: int
) -> tuple[list[Any], list[Any]]:
    """(begins_ns, ends_ns, how many more, before_ns), (due_ns, first_ns) of the runs of ACKs that came at once."""

def never_captured(offset: Any, length: Any, most: int, first_new: int) -> tuple[int, int]: ...
def echoes_named(length: Any, ts_ecr: Any, ts_val: Any) -> tuple[int, Any, Any, int] | None: ...
def echoed(
    segments: Sequence[Any], acks: Sequence[Any], *, smss: int, long_ns: int, most_stale: float
) -> tuple[int | None, int | None, int, int] | None: ...
def stamped_alike(
    stamps: Any, is_sent: Any, near_ns: int
) -> tuple[tuple[int, int], list[list[int]], int, list[tuple[int, int, int]]]: ...
def json_rows(keys: list[str], columns: list[list[str] | tuple[Any, list[str], bool]], between: str) -> str: ...
def json_text(value: Any, *, within: int = 0) -> str:
    """JSON as `json.dumps(value, indent=1, allow_nan=False)` writes it."""

def stay_alone() -> None: ...
def upper_line(at: Any, above: Any) -> tuple[float, float]: ...
def percentile(values: Any, percent: float) -> float: ...
def median(values: Any) -> float: ...
def rolling_median(values: Any, around: int) -> Any: ...
def starts(
    *,
    initial_window: Any,
    places: Any,
    last_rate: Any,
    feed_rate: Any,
    feed_time: Any,
    return_time: Any,
    ack_timer: Any,
    block_time: Any,
    forward: Any,
    most_blocks: float,
    count: int,
) -> dict[str, Any]:
    """Starts of k packets into b buffers (core/src/models/start.rs)."""

def slow_starts_per_cycle(
    is_loss: Any, snd_una: Any, snd_nxt: Any, is_slow_start: Any, has_restarted: Any
) -> list[int]: ...
def read_path(
    path: str,
    detail: bool | list[int] | list[tuple[int, int]] | Literal["first"] | None = None,
    progress: Callable[[int], object] | None = None,
    name: str | None = None,
) -> Capture: ...
def analyze_json(
    path: str,
    write: Callable[[bytes], object],
    filter: str | None = None,
    patience_s: tuple[float, float] | None = None,
    progress: Callable[[int], object] | None = None,
) -> None:
    """Writes a capture as a JSON object; with `patience_s` (closed, idle) a connection a line as soon as it is over."""

def check_filter(text: str) -> None: ...
def controls() -> ControlTable: ...

class ParameterRow(TypedDict):
    """A parameter of the table of controls (core/src/python/controls.rs)."""

    name: str
    unit: str
    default: float | bool
    low: float
    high: float
    wanted: str
    profiles: list[str]
    what: str

class SlowStartRow(TypedDict):
    """A slow start of the table."""

    name: str
    source: str
    parameters: list[ParameterRow]

class WindowRow(TypedDict):
    """A window of the table."""

    name: str
    family: str
    spelt: str
    source: str
    profiles: list[str]
    is_linux_module: bool
    has_slow_start: bool
    keeps_to_its_slow_start: bool
    is_by_delay: bool
    is_by_longest_delay: bool
    is_by_last_loss: bool
    parameters: list[ParameterRow]

class ControlTable(TypedDict):
    """The table; `controls` are the named ones and the keys for which each stands."""

    slow_starts: list[SlowStartRow]
    windows: list[WindowRow]
    controls: dict[str, dict[str, object]]

def scenario_schema() -> str: ...
def check_scenario(part: str, given: Mapping[str, Any]) -> None: ...
def scenario_table(given: Mapping[str, Any]) -> dict[str, Any]: ...
def simulate(
    scenario: Mapping[str, Any],
    controls: Sequence[object | None] = (),
    *,
    events: bool = False,
    truth: bool = True,
    most_events: int | None = None,
) -> Simulation: ...
def simulate_to_files(
    scenario: Mapping[str, Any],
    files: list[tuple[str, bool]],
    snaplen: int,
    has_payload: bool,
    epoch_ns: int,
    on_piece: Callable[[Simulation], object] | None = None,
    controls: Sequence[object | None] = (),
) -> Simulation: ...
def sweep(scenarios: Sequence[Mapping[str, Any]], done: Callable[[int, dict[str, Any]], object]) -> None: ...
def open_loop(
    path: str,
    name: str,
    scenario: Mapping[str, Any],
    near: list[str],
    near_ends: list[tuple[str, int]],
    mtu: int,
    output: str | None = None,
    is_pcapng: bool = False,
    progress: Callable[[int], object] | None = None,
) -> OpenLoop: ...
def open_loop_sweep(
    path: str,
    name: str,
    scenarios: Sequence[Mapping[str, Any]],
    near: list[str],
    near_ends: list[tuple[str, int]],
    mtu: int,
    progress: Callable[[int], object] | None = None,
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]: ...

class OpenLoop:
    """What a capture met on a path (core/src/python/replay.rs); tables as of a simulation."""

    @property
    def nodes_before(self) -> int: ...
    @property
    def epoch_ns(self) -> int: ...
    @property
    def truncated(self) -> tuple[int, str] | None: ...
    @property
    def unit_bytes(self) -> int: ...
    def counts(self) -> dict[str, int]: ...
    def summary(self) -> dict[str, Any]: ...
    def pairs(self) -> list[tuple[str, int, str, int]]: ...
    def drops(self) -> dict[str, Any]: ...
    def delays(self) -> dict[str, Any]: ...
    def queue(self, node: int, is_reverse: bool) -> dict[str, Any]: ...
    def nodes(self) -> list[dict[str, Any]]: ...

class Simulation:
    """A finished run (core/src/python/simulate.rs): every table a dict of numpy columns."""

    @property
    def nodes_before(self) -> int: ...
    @property
    def unit_bytes(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def is_cut(self) -> bool: ...
    @property
    def control_names(self) -> list[str]: ...
    def smss(self) -> list[int]: ...
    def ports(self) -> list[tuple[int, int]]: ...
    def first_seqs(self) -> list[int]: ...
    def summary(self) -> dict[str, Any]: ...
    def packets(self, tap: int) -> dict[str, Any]: ...
    def capture(
        self, tap: int, name: str, detail: bool | list[int] | list[tuple[int, int]] | Literal["first"] | None = None
    ) -> Capture: ...
    def write(self, tap: int, path: str, is_pcapng: bool, snaplen: int, has_payload: bool, epoch_ns: int) -> None: ...
    def truth(self) -> dict[str, Any]: ...
    def losses(self) -> dict[str, Any]: ...
    def cycles(self) -> dict[str, Any]: ...
    def drops(self) -> dict[str, Any]: ...
    def events(self) -> dict[str, Any]: ...
    def queue(self, node: int, is_reverse: bool) -> dict[str, Any]: ...
    def nodes(self) -> list[dict[str, Any]]: ...
    def totals(self) -> list[dict[str, Any]]: ...

class ControlState:
    """What a control written in Python reads and changes (core/src/python/control.rs)."""

    cwnd: float
    ssthresh: float
    pacing_rate: float | None
    @property
    def smss(self) -> float: ...
    @property
    def now_ns(self) -> int: ...
    @property
    def newly_acked(self) -> float: ...
    @property
    def newly_lost(self) -> float: ...
    @property
    def delivered(self) -> float: ...
    @property
    def lost(self) -> float: ...
    @property
    def delivery_rate(self) -> float | None: ...
    @property
    def flight_size(self) -> float: ...
    @property
    def rtt_ns(self) -> int | None: ...
    @property
    def srtt_ns(self) -> int | None: ...
    @property
    def snd_una(self) -> int: ...
    @property
    def snd_nxt(self) -> int: ...
    @property
    def is_cwnd_limited(self) -> bool: ...
    @property
    def is_app_limited(self) -> bool: ...
    @property
    def is_in_recovery(self) -> bool: ...

# Sixteenths of a segment with which an epoch may have begun.
FRACTIONS: list[float]

class Heard:
    """What every reading of one sender has in common, an entry per ACK; the arrays are not copied."""

    def __new__(cls, columns: dict[str, Any], *, first: int, zero_ns: int) -> Heard: ...

class Evidence:
    """Where candidates are compared with what was sent (infer/candidates/evidence.rs): pieces of ACKs, reductions."""

    def __new__(
        cls,
        *,
        acks: Any,
        ends: Any,
        is_slow_start: Any,
        followed: list[int],
        flight: Any,
        reductions: list[tuple[int, float, bool]],
        smss: float,
    ) -> Evidence: ...
    @property
    def scale(self) -> Any:
        """What the error of each is held against, in segments."""

    @property
    def observed(self) -> Any:
        """Segments outstanding at the end of each."""

class Marks:
    """What stands between the ACKs in any reading (core/src/python/tape.rs)."""

    def __new__(cls, columns: dict[str, Any]) -> Marks: ...

class Tape:
    """The events of one sender, to be fed to any control (core/src/python/tape.rs): ACKs, and marks behind them."""

    def __new__(
        cls, heard: Heard, marks: Marks, chosen: list[int], *, before: Marks | None = None, opens: bool = False
    ) -> Tape: ...
    def play(
        self, sender: CandidateSender, *, at_most: bool = False, later_ns: int = 0, rows: Any = None
    ) -> tuple[Any, Any]:
        """cwnd and ssthresh in bytes after each row, as the control itself has them; or the most they could be.

        Every time is `later_ns` later. `rows`: after these alone, int64, which rise.
        """

    def play_by_itself(
        self, sender: CandidateSender, *, begins_ns: int, later_ns: int, since_ns: int | None, count: int
    ) -> Any:
        """cwnd in bytes after each row, as the control has it whose round trips are those of its own window.

        `begins_ns`: when its first window left, on the control's clock; `since_ns`: when the first loss was of what is
        seen from there on; `count`: of so many rows, the first.
        """

    def memory(
        self, sender: CandidateSender, names: list[str], *, later_ns: int = 0, rows: Any = None
    ) -> dict[str, Any]:
        """What the control holds in mind after each row, a column for each name; ValueError for one it has not.

        `rows`: after these alone, int64, which rise.
        """

class Contest:
    """Candidates replayed side by side (core/src/infer/candidates/contest.rs)."""

    def __new__(
        cls,
        evidence: Evidence,
        tapes: list[Tape],
        rows: list[list[int]],
        entries: list[tuple[int, CandidateSender, int]],
        *,
        by_themselves: tuple[int, int | None] | None = None,
    ) -> Contest: ...
    def advance(self, upto: int | None) -> None:
        """Everyone hears all up to an ACK (None: to the end)."""

    def keep(self, numbers: list[int]) -> None:
        """Only these go on."""

    def judged(self) -> list[tuple[int, Any, Any]]:
        """Of everyone who goes on the number, and of each piece and reduction so far the error and the own window there
        (segments); NaN: not judged yet."""

class CandidateSender:
    """A candidate before its first ACK (core/src/python/tape.rs)."""

    def __new__(
        cls, slow_start: str, window: str, parameters: dict[str, float], initial_window: float, smss: float
    ) -> CandidateSender: ...

def told_windows(
    timeline: Any, sender: CandidateSender, handshake_rtt_ns: int | None, by_timer: Sequence[int]
) -> tuple[Any, Any]:
    """The window in bytes after each ACK of a control that owns it (BBR), told of what was seen, and how much of that
    bridges the time between lumps of ACKs; empty without the connection's beginning. `by_timer`: sends that a
    retransmission timer released, in order (core/src/infer/candidates/told.rs)."""

"""What runs inside a network namespace: the namespace's keeper, the receivers, the senders, the kernel's tracer.

Started as a script with the standard library alone. The first line of standard input is the order (JSON); every answer
is a line of JSON. Each role ends, and gives back what it holds, when its standard input closes: a recorder that is
killed leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

# linux/if_tun.h
TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
# linux/sockios.h
SIOCOUTQ = 0x5411
# linux/tcp.h, where the socket module of some Python lacks them
TCP_WINDOW_CLAMP = 10
TCP_INFO = 11
TCP_CONGESTION = 13
TCP_NOTSENT_LOWAT = 25

SAMPLE_S = 0.01
# Enough that the sender never waits for the application, little enough that the end comes soon after the last write.
NOTSENT_BYTES = 256 * 1024

Order = dict[str, Any]


def main() -> None:
    """The role named on the command line."""
    roles: dict[str, Callable[[Order], None]] = {
        "keeper": keep_namespace,
        "receivers": run_receivers,
        "senders": run_senders,
        "tracer": trace_kernel,
    }
    try:
        roles[sys.argv[1]](json.loads(sys.stdin.readline()))
    except (OSError, subprocess.CalledProcessError) as error:
        words = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        answer({"error": f"{error} {words or ''}".strip()})


def answer(reply: Order) -> None:
    print(json.dumps(reply), flush=True)


def wait_for_end() -> None:
    """Until the recorder closes our standard input, or says anything."""
    sys.stdin.readline()


def end_with_recorder() -> None:
    """Ends this process as soon as the recorder is gone."""

    def watch() -> NoReturn:
        wait_for_end()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def hurry() -> None:
    """Before others, where that is allowed."""
    with contextlib.suppress(PermissionError):
        os.nice(-15)


# ---- keeper


def keep_namespace(order: Order) -> None:
    """Settings, TUN devices, addresses and routes of this namespace; the descriptors go to the recorder."""
    for key, value in order["sysctls"].items():
        path = Path("/proc/sys") / key.replace(".", "/")
        # Older kernels lack some of the switches, and with them the behaviour that they switch off.
        if path.exists():
            path.write_text(str(value))
    devices = []
    for name in order["devices"]:
        devices.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
        fcntl.ioctl(devices[-1], TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    for command in order["commands"]:
        subprocess.run(command, check=True, capture_output=True, text=True)
    with socket.socket(fileno=order["socket"]) as channel:
        socket.send_fds(channel, [b"devices"], devices)
    for device in devices:
        os.close(device)
    answer({"ready": True})
    wait_for_end()


# ---- receivers


def run_receivers(order: Order) -> None:
    """One listening socket and one connection per flow; reads until the sender's FIN."""
    hurry()
    end_with_recorder()
    results: list[Order] = [{} for _ in order["flows"]]
    threads = []
    for number, flow in enumerate(order["flows"]):
        listener = listen(flow, ipv6=order["ipv6"])
        threads.append(threading.Thread(target=receive, args=(listener, flow, results, number)))
    answer({"ready": True})
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer({"flows": results})


def listen(flow: Order, *, ipv6: bool) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if flow["rwnd"]:
        # A set buffer is not tuned. The kernel doubles the value and offers half of that at first, later somewhat more.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, flow["rwnd"])
    listener.bind((flow["address"], flow["port"]))
    listener.listen(1)
    return listener


def receive(listener: socket.socket, flow: Order, results: list[Order], number: int) -> None:
    connection, peer = listener.accept()
    rate = flow["reader_bps"]
    began = time.monotonic()
    count = 0
    try:
        with connection, listener:
            # Read at a rate in portions of 2 ms at least, one byte a time being no reader that exists.
            portion = max(int(rate / 8 * 0.002), 1) if rate else 1 << 18
            while data := connection.recv(portion):
                count += len(data)
                if flow["rwnd"] and connection.getsockopt(socket.IPPROTO_TCP, TCP_WINDOW_CLAMP) != flow["rwnd"]:
                    # The kernel sets the clamp anew when it learns how much memory a segment takes.
                    connection.setsockopt(socket.IPPROTO_TCP, TCP_WINDOW_CLAMP, flow["rwnd"])
                if rate:
                    time.sleep(max(began + count * 8 / rate - time.monotonic(), 0))
    except ConnectionError as error:
        results[number]["error"] = str(error)
    results[number] |= {"client_port": peer[1], "bytes": count, "seconds": time.monotonic() - began}


# ---- senders


def run_senders(order: Order) -> None:
    """One connection per flow, started at its time; samples of TCP_INFO on the way."""
    hurry()
    end_with_recorder()
    began = time.monotonic()
    results: list[Order] = [{} for _ in order["flows"]]
    threads = [
        threading.Thread(target=send, args=(flow, order, began, results, number), daemon=True)
        for number, flow in enumerate(order["flows"])
    ]
    for thread in threads:
        thread.start()
    deadline = began + order["duration_s"] + order["drain_s"]
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    answer({"flows": results})


def send(flow: Order, order: Order, began: float, results: list[Order], number: int) -> None:
    result = results[number]
    time.sleep(max(began + flow["start_s"] - time.monotonic(), 0))
    family = socket.AF_INET6 if order["ipv6"] else socket.AF_INET
    with socket.socket(family) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, flow["congestion"].encode())
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if flow["application"]["kind"] == "bulk":
            connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOTSENT_BYTES)
        connection.settimeout(10)
        connection.connect((flow["address"], flow["port"]))
        connection.settimeout(None)
        result["client_port"] = connection.getsockname()[1]
        samples: list[list[int]] = []
        result["samples"] = samples
        finished = threading.Event()
        sampler = threading.Thread(target=sample, args=(connection, samples, finished), daemon=True)
        sampler.start()
        try:
            result["bytes"] = write(connection, flow["application"], began + order["duration_s"])
            # The FIN comes after the last ACK: tracepoint tcp_probe is silent from the moment the FIN is queued.
            while unacknowledged(connection):
                time.sleep(0.001)
            connection.shutdown(socket.SHUT_WR)
            # The receiver's FIN: it has everything.
            while connection.recv(1 << 16):
                pass
        except OSError as error:
            result["error"] = str(error)
        finished.set()
        sampler.join()


def write(connection: socket.socket, application: Order, until: float) -> int:
    """What the application has to say, until `until` at most."""
    began = time.monotonic()
    match application["kind"]:
        case "bytes":
            return write_bytes(connection, application["bytes"], until)
        case "on_off":
            count = 0
            repeats = application["repeats"] or sys.maxsize
            for burst in range(repeats):
                if time.monotonic() >= until:
                    break
                count += write_bytes(connection, application["bytes"], until)
                if burst + 1 < repeats:
                    time.sleep(max(min(application["off_s"], until - time.monotonic()), 0))
            return count
        case "schedule":
            count = 0
            for at_s, size in application["writes"]:
                time.sleep(max(min(began + at_s, until) - time.monotonic(), 0))
                count += write_bytes(connection, size, until)
            return count
    return write_bytes(connection, sys.maxsize, until)


def write_bytes(connection: socket.socket, count: int, until: float) -> int:
    chunk = bytes(1 << 16)
    written = 0
    while written < count and (left := until - time.monotonic()) > 0:
        # A receiver that does not read would block us for ever.
        if select.select([], [connection], [], left)[1]:
            written += connection.send(chunk[: count - written], socket.MSG_DONTWAIT)
    return written


def unacknowledged(connection: socket.socket) -> int:
    """Bytes that the receiver has not acknowledged, sent or not."""
    count: int = struct.unpack("=i", fcntl.ioctl(connection, SIOCOUTQ, bytes(4)))[0]
    return count


def sample(connection: socket.socket, samples: list[list[int]], finished: threading.Event) -> None:
    """TCP_INFO every 10 ms: time_ns, state, cwnd, ssthresh, srtt_us, unacked, sacked, lost, retrans, snd_wnd."""
    while not finished.wait(SAMPLE_S):
        try:
            info = connection.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 256)
        except OSError:
            return
        now = time.clock_gettime_ns(time.CLOCK_REALTIME)
        # struct tcp_info: eight bytes of flags and scales, then 32-bit words.
        ca_state = info[1]
        words = struct.unpack_from("=24I", info, 8)
        unacked, sacked, lost, retrans = words[4:8]
        srtt_us, ssthresh, cwnd = words[15], words[17], words[18]
        # tcpi_snd_wnd stands at 228 since Linux 5.4.
        snd_wnd = struct.unpack_from("=I", info, 228)[0] if len(info) >= 232 else 0
        samples.append([now, ca_state, cwnd, ssthresh, srtt_us, unacked, sacked, lost, retrans, snd_wnd])


# ---- tracer


def trace_kernel(order: Order) -> None:
    """The kernel's own events of our connections (tracefs), in an instance and a mount that nobody else sees."""
    root = Path("/sys/kernel/tracing")
    if not (root / "instances").exists():
        command = ["mount", "-t", "tracefs", "none", str(root)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    instance = root / "instances" / order["name"]
    instance.mkdir()
    try:
        (instance / "trace_clock").write_text("tai")
        (instance / "buffer_size_kb").write_text(str(order["buffer_kb"]))
        for event in order["events"]:
            folder = instance / "events" / event
            (folder / "filter").write_text(f"dport >= {order['first_port']} && dport <= {order['last_port']}")
            (folder / "enable").write_text("1")
        answer({"ready": True})
        wait_for_end()
        (instance / "tracing_on").write_text("0")
        if Path(order["output"]).parent.exists():
            with (instance / "trace").open("rb") as source, open(order["output"], "wb") as target:
                shutil.copyfileobj(source, target)
        statistics = [(cpu / "stats").read_text().splitlines() for cpu in sorted((instance / "per_cpu").iterdir())]
        counts = [line.partition(": ") for lines in statistics for line in lines]
        lost = sum(int(count) for key, _, count in counts if key in ("overrun", "commit overrun", "dropped events"))
        offset = time.clock_gettime_ns(time.CLOCK_TAI) - time.clock_gettime_ns(time.CLOCK_REALTIME)
        answer({"lost": lost, "tai_offset_s": round(offset / 1e9)})
    finally:
        instance.rmdir()


if __name__ == "__main__":
    main()

"""When another program's frames leave an interface: the kernel's own stamps."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

# <linux/if_ether.h> and <asm/socket.h>, as Linux has them; the socket module does not name them.
ETH_P_ALL, SO_TIMESTAMPNS, SO_RCVBUFFORCE = 0x0003, 35, 33
# Frames that wait for us to look: some ten thousand of full size.
WAITING_BYTES = 64 << 20
ETHERNET_BYTES = 14
# Nothing has left for so long: it is over.
QUIET_S = 0.2


@contextlib.contextmanager
def leaving(interface: str, *, source: str) -> Iterator[list[int]]:
    """The times (ns) at which frames of this source address left during the block: complete when it has ended."""
    wanted = bytes.fromhex(source.replace(":", ""))
    stamps: list[int] = []
    is_over = threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        with contextlib.suppress(PermissionError):
            # Root of a user namespace has what the system gives everybody.
            tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, WAITING_BYTES)
        tap.settimeout(QUIET_S)
        tap.bind((interface, ETH_P_ALL))

        def listen() -> None:
            while True:
                try:
                    frame, controls, _, address = tap.recvmsg(ETHERNET_BYTES, 64)
                except TimeoutError:
                    if is_over.is_set():
                        return
                    continue
                if address[2] == socket.PACKET_OUTGOING and frame[6:12] == wanted:
                    seconds, nanoseconds = struct.unpack("@ll", controls[0][2])
                    stamps.append(seconds * 10**9 + nanoseconds)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield stamps
        finally:
            is_over.set()
            thread.join()

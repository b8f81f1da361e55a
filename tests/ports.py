"""Ports of this machine's loopback, each given to one server at a time, also by processes of tests side by side.

A server's port is its own from before it listens, and while it is down between two starts.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

PORTS = range(20_000, 32_000)  # outgoing connections don't take these, so a port is still free after a restart
LOCKS = Path(tempfile.gettempdir()) / f"bots-test-ports-{os.getuid()}"

_held: dict[int, int] = {}  # port -> the descriptor of its lock


def free_port() -> int:
    """Return a port that nobody listens on, nor may soon; it is taken until `release`, or until this process ends."""
    for port in random.sample(PORTS, 100):
        if reserve(port):
            return port
    raise RuntimeError(f"no port from {PORTS.start} to {PORTS.stop} is free")


def reserve(port: int) -> bool:
    """Take a port, and say whether that went well: it is one of PORTS, nobody has it, and nobody listens there."""
    if port not in PORTS or port in _held:
        return False
    LOCKS.mkdir(exist_ok=True)
    lock = os.open(LOCKS / str(port), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(lock)
        return False
    _held[port] = lock
    return True


def release(port: int) -> None:
    os.close(_held.pop(port))

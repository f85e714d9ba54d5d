"""Ports for servers of tests."""

import random
import socket
from contextlib import suppress

PORTS = range(10_000, 32_000)  # below those from which a system takes ports for connections while a server starts


def free_port() -> int:
    """Returns a port at which nobody listens. Raises OSError if a hundred are taken."""
    for _ in range(100):
        port = random.choice(PORTS)
        with socket.socket() as free, suppress(OSError):
            free.bind(("", port))
            return port
    raise OSError(f"No port from {PORTS.start} to {PORTS.stop} is free.")

"""The way to free a thread that waits for a server that does not answer."""

import os
import socket
from contextlib import suppress
from threading import Lock


class Lifeline:
    """A second hold on a connection's socket, so that another thread can end what the first waits for."""

    def __init__(self, descriptor: int) -> None:
        """Hold a socket by its descriptor. A copy: the descriptor itself may soon be another file's."""
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._lock = Lock()

    def cut(self) -> None:
        """End the connection: whoever waits for it gets an error at once. The server is not asked for anything.

        Asking it to cancel instead would let a commit that waits for a standby return as if that had it.
        """
        with self._lock, suppress(OSError):  # it was closed, or the other side ended it
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let the socket go."""
        with self._lock:
            self._socket.close()

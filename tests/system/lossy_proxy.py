"""A TCP proxy on loopback that loses replies: the request arrives, its answer does not."""

import contextlib
import random
import socket
import threading
from collections.abc import Callable

CHUNK = 65_536


class LossyProxy:
    """Passes connections on to a port, and breaks some of them just before an answer comes back."""

    def __init__(self, to_port: int, *, loses: Callable[[bytes], bool]) -> None:
        """Listen at once. loses: says of each piece of an answer whether it is lost."""
        self.lost = 0
        self._to_port = to_port
        self._loses = loses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self):
        self._start(self._accept)
        return self

    def __exit__(self, *exc):
        self._end(self._listener)
        for side in list(self._open):
            self._end(side)
        for thread in self._threads:
            thread.join()

    def _start(self, work, *arguments) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                service = socket.create_connection(("127.0.0.1", self._to_port))
                self._open |= {client, service}
                self._start(self._pass_on, client, service, None)
                self._start(self._pass_on, service, client, self._loses)

    def _pass_on(self, source: socket.socket, target: socket.socket, loses: Callable[[bytes], bool] | None) -> None:
        with contextlib.suppress(OSError):  # either side is closed
            while piece := source.recv(CHUNK):
                if loses is not None and loses(piece):
                    self.lost += 1
                    break
                target.sendall(piece)
        for side in (source, target):
            self._end(side)
            self._open.discard(side)

    @staticmethod
    def _end(side: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed already
            side.shutdown(socket.SHUT_RDWR)
        side.close()


def seeded(seed: int, share: float) -> Callable[[bytes], bool]:
    """Return a coin that loses this share of the answers."""
    rng = random.Random(seed)
    return lambda _: rng.random() < share

"""Watches over worker processes that share one listening socket: starts them, replaces the dead, ends them all."""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import NoReturn

import structlog

from bots_service.errors import BotsError
from bots_service.serving.listening import address_of, let_nobody_in, listen, refuse, reserve
from bots_service.serving.peers import Peers
from bots_service.serving.process import set_up_logs
from bots_service.settings import Settings, unknown_variables
from bots_service.storage.sql.url import is_postgresql, sql_url

log = structlog.get_logger("bots_service.serving")

LOOK_S = 0.2  # how soon a signal is seen
FIRST_WAIT_S = 0.5  # before a dead worker is replaced; doubles with each death
LONGEST_WAIT_S = 30.0
PROVEN_S = 60.0  # a worker that served this long has earned a quick replacement
FINISH_S = 30.0  # workers that still run this long after the drain are killed

# Spawned, not forked: numpy and pyarrow have threads, and a fork would copy their locks without them.
_processes = multiprocessing.get_context("spawn")


@dataclass
class Worker:
    """The place of one worker; successive processes fill it.

    peers: the other places, seen from there.
    deaths: in a row, none of them after a proven life.
    """

    peers: Peers
    process: SpawnProcess | None = None
    pipe: Pipe | None = None
    serves: bool = False
    started: float = 0.0
    deaths: int = 0
    due: float = 0.0

    def start(self, settings: Settings, listener: socket.socket) -> None:
        """Fill the place."""
        self.pipe, theirs = _processes.Pipe()
        self.process = _processes.Process(
            target=_work, args=(settings, listener, theirs, self.peers), name=f"bots-{self.peers.number}", daemon=False
        )
        self.process.start()
        theirs.close()
        self.serves, self.started = False, time.monotonic()

    def could_answer(self) -> bool:
        """Return whether the worker has just said that it could answer."""
        if self.pipe is None or self.serves or not self.pipe.poll():
            return False
        try:
            self.pipe.recv()
        except EOFError:
            self.pipe.close()
            self.pipe = None
            return False
        return True

    def let_in(self) -> None:
        """Tell the worker to accept requests."""
        self.serves = True
        with contextlib.suppress(OSError):  # it has just died
            if self.pipe is not None:
                self.pipe.send("accept")

    def clear(self) -> int | None:
        """Empty the place if its worker has ended; return the exit code then."""
        if self.process is None or self.process.exitcode is None:
            return None
        code, now = self.process.exitcode, time.monotonic()
        self.process.close()
        if self.pipe is not None:
            self.pipe.close()
        self.process = self.pipe = None
        self.deaths = 1 if self.serves and now - self.started > PROVEN_S else self.deaths + 1
        self.due = now + min(FIRST_WAIT_S * 2 ** (self.deaths - 1), LONGEST_WAIT_S)
        return code


@dataclass
class Orders:
    """The signals that this process received."""

    number: int | None = None
    hurry: bool = field(default=False)

    def hear(self, number: int, _frame: FrameType | None) -> None:
        """Note a signal; Ctrl-C a second time means: now."""
        self.hurry = self.number is not None and number == signal.SIGINT
        self.number = self.number or number


def supervise(settings: Settings, listener: socket.socket, *, when_serving: Callable[[], object]) -> int:
    """Keep workers running until SIGTERM or SIGINT; return the exit code.

    A worker that dies before any has served means that the service can't start: the others are ended, too. Callers are
    let in while a worker serves, and refused while none does.

    Args:
        settings: the service's.
        listener: the socket that they share, on which each listens once it can answer.
        when_serving: called once the first worker answers.
    """
    set_up_logs(settings)
    with tempfile.TemporaryDirectory(prefix="bots-") as folder:
        places = [Peers(Path(folder), number, settings.workers) for number in range(settings.workers)]
        return _supervise(settings, listener, [Worker(place) for place in places], when_serving)


def _supervise(
    settings: Settings, listener: socket.socket, workers: list[Worker], when_serving: Callable[[], object]
) -> int:
    orders = Orders()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, orders.hear)
    has_served = False
    while orders.number is None:
        for worker in workers:
            if worker.process is None and time.monotonic() >= worker.due:
                worker.start(settings, listener)
        _wait(workers)
        _let_in(workers, listener)
        for worker in workers:
            code = worker.clear()
            if code is not None and not (has_served or worker.serves):
                end(workers, orders, listener, drain_s=0)
                return 1
            if code is not None and orders.number is None:
                log.error("worker_died", worker=worker.peers.number, exit_code=code, deaths=worker.deaths)
        if not has_served and any(worker.serves for worker in workers):
            has_served = True
            when_serving()
        if not any(worker.process is not None and worker.serves for worker in workers):
            refuse(listener)  # a connection accepted now would wait for a worker that is only starting
    end(workers, orders, listener, drain_s=settings.drain_s)
    return 0 if orders.number == signal.SIGTERM else 128 + orders.number


def _let_in(workers: list[Worker], listener: socket.socket) -> None:
    """Let callers in to the workers that could answer by now."""
    for worker in workers:
        if worker.could_answer():
            listen(listener)
            worker.let_in()


def end(workers: list[Worker], orders: Orders, listener: socket.socket, *, drain_s: float) -> None:
    """Tell the workers to end, and return once they have."""
    running = [worker.process for worker in workers if worker.process is not None]
    for process in running:
        process.terminate()
    drained = time.monotonic() + drain_s
    while any(process.exitcode is None for process in running) and not orders.hurry and time.monotonic() < drained:
        time.sleep(LOOK_S)
    let_nobody_in(listener)
    listener.close()
    for process in running:
        while process.exitcode is None and not orders.hurry and time.monotonic() < drained + FINISH_S:
            process.join(LOOK_S)
        if process.exitcode is None:
            log.error("worker_killed", pid=process.pid)
            process.kill()
            process.join()


def _wait(workers: list[Worker]) -> None:
    """Wait a moment, or until something happens to a worker."""
    waited: list[int | Pipe] = [worker.process.sentinel for worker in workers if worker.process is not None]
    waited += [worker.pipe for worker in workers if worker.pipe is not None and not worker.serves]
    if waited:
        connection.wait(waited, LOOK_S)
    else:
        time.sleep(LOOK_S)


def _work(settings: Settings, listener: socket.socket, supervisor: Pipe, peers: Peers) -> None:
    """Be a worker."""
    from bots_service.serving.worker import work  # not above: who only watches needs none of its libraries

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, exit_gracefully)
    try:
        work(settings, listener, supervisor=supervisor, peers=peers)
    except BotsError as error:
        sys.stderr.write(f"bots: worker {os.getpid()}: {error}\n")
        raise SystemExit(1) from None


class CannotShareError(BotsError):
    """Several processes were asked for, and they would share nothing."""


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; requests that were sent are answered first.

    Raises:
        CannotListenError: the address is in use, or it is beyond loopback without keys and without --insecure.
        CannotShareError: several workers, without a database and a Redis that they can share.
        StorageUnavailableError: the database can't be opened, or another process has it.
        SystemExit: a signal ended it.
    """
    require_shared(settings)
    for line in unknown_variables(os.environ):
        sys.stderr.write(f"bots: {line}\n")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, exit_gracefully)
    with reserve(settings) as listener:
        said = greeting(settings, address_of(listener))
        if settings.workers == 1:
            from bots_service.serving.worker import work  # not above: who only watches needs none of its libraries

            work(settings, listener, when_serving=lambda: sys.stderr.write(said))
        else:
            raise SystemExit(supervise(settings, listener, when_serving=lambda: sys.stderr.write(said)))


def require_shared(settings: Settings) -> None:
    """Check that several workers would be one service.

    Raises:
        CannotShareError: they would not.
    """
    if settings.workers == 1:
        return
    if not is_postgresql(settings.sql_url) or settings.redis_url is None:
        raise CannotShareError(
            f"{settings.workers} workers need PostgreSQL and Redis to share their state: "
            "set BOTS_DATABASE_URL to a postgresql:// URL and BOTS_REDIS_URL, or start one worker"
        )


def greeting(settings: Settings, address: str) -> str:
    """Return the line that says where the service is."""
    where = sql_url(settings.sql_url).render_as_string(hide_password=True)
    of_workers = "" if settings.workers == 1 else f", {settings.workers} workers"
    return f"BOTS listens on {address} (a page for browsers; documentation at /docs){of_workers}, data in {where}\n"


def exit_gracefully(number: int, _frame: object) -> NoReturn:
    """End the process, closing what is open on the way. The server raises the signal again once it has drained."""
    raise SystemExit(0 if number == signal.SIGTERM else 128 + number)

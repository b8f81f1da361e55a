"""The demo's real training run, replayed at a service in the background."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from bots_client import Client
from bots_service.demo.replay import Replay, recorded_run

PAUSE_S = 0.05  # between two steps, so that the page can be seen to follow
DATASET = "rlvr-run-890"
BOTS, UNIFORM, TRACKER, PASS = "bots-thompson", "uniform", "tracker-thompson", "tracker-pass"  # the runs


@contextmanager
def replaying(url: str, steps: int) -> Iterator[Event]:
    """Replay so many steps of the run in each of the demo's ways; give what is set once they are done."""
    leave, done = Event(), Event()

    def replay() -> None:
        with Client(url) as client:
            started = Replay(client, recorded_run(), steps=steps, count=32, seed=0)
            for step in range(steps):
                started.take(step)
                if leave.wait(PAUSE_S):
                    return
        done.set()

    with ThreadPoolExecutor(1) as threads:
        replay_under_way = threads.submit(replay)
        try:
            yield done
        finally:
            leave.set()
        replay_under_way.result()

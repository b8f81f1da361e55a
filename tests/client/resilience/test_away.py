"""A service that goes away and comes back: training waits for it once, and it is found without training's help."""

import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from bots_client import Outcome, ResilientClient, Selector
from bots_client._resilience import connection
from tests.client.resilience.worlds import IDS, wait_for
from tests.serving import NOWHERE

AT_ONCE_S = 5.0  # a hundred times what it takes, and less than the deadlines, which it must not wait for
SOON_S = 100.0  # a service that starts took 28 s on a busy machine
OF_THE_LAST_STEP = {"bots/effective_task_ratio", "bots/step", "bots/selected_mean"}
ROOT = Path(__file__).parents[3]


def trained(selector, seconds, until=lambda: False):
    """Train for so long; return how long each step took."""
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        begun = time.monotonic()
        for task in selector.next(4).ids:
            selector.observe(task, [1, 0])
        selector.step()
        took.append(time.monotonic() - begun)
        time.sleep(0.1)
    return took


def watchers():
    return [thread for thread in threading.enumerate() if thread.name == "bots-probe"]


@pytest.mark.usefixtures("quick_looks")
@pytest.mark.parametrize("hangs", [False, True], ids=["killed", "stopped"])
def test_training_waits_once_for_a_service_that_goes_away(own_service, connect, hangs):
    bots = connect(own_service, select_deadline_s=8.0, report_deadline_s=9.0)
    selector = Selector(bots, "guru", ids=IDS)
    trained(selector, 0.3)
    assert not any(math.isnan(selector.metrics()[name]) for name in OF_THE_LAST_STEP)
    own_service.process.send_signal(signal.SIGSTOP if hangs else signal.SIGKILL)
    first, *others = trained(selector, SOON_S, until=lambda: bots.health.local_selects)
    assert not hangs or first > AT_ONCE_S  # it costs a deadline; a refused connection, random waits that may end sooner
    others += trained(selector, 5 if hangs else 1)  # a look at a service that hangs takes 4 s; at none, no time
    assert all(math.isnan(selector.metrics()[name]) for name in OF_THE_LAST_STEP)
    if hangs:
        own_service.process.send_signal(signal.SIGCONT)
    else:
        own_service.process.wait()
        own_service.start()
    others += trained(selector, SOON_S, until=lambda: not bots.health.is_away)
    others += trained(selector, 0.5)

    assert max(others) < AT_ONCE_S
    assert (bots.health.is_away, bots.health.kept, bots.health.refused, bots.health.lost) == (False, 0, 0, 0)
    run = bots.direct.run("guru")
    assert run.totals.rollouts == 8 * bots.health.reports


@pytest.mark.usefixtures("quick_looks")
def test_a_client_that_is_closed_or_dropped_looks_for_nothing(tmp_path):
    before = set(watchers())
    closed, dropped = (ResilientClient(NOWHERE, spool=tmp_path / name, report_deadline_s=0.2) for name in "ab")
    for bots in (closed, dropped):
        bots.report("guru", [Outcome.counts("t1", 1, 2)])
    assert len(set(watchers()) - before) == 2

    closed.close()
    gone = weakref.ref(dropped.direct)
    del bots, dropped

    def is_forgotten():
        gc.collect()  # again and again: a call that was given up may hold the client, and still end
        return gone() is None

    wait_for(is_forgotten)
    wait_for(lambda: set(watchers()) <= before)
    assert closed.select("guru", 2, ids=IDS).is_local
    assert set(watchers()) <= before


@pytest.mark.parametrize("end", ["", "bots.close()"])
def test_a_process_ends_at_once_while_the_service_is_away(tmp_path, end):
    program = f"""
from bots_client import ResilientClient
bots = ResilientClient({NOWHERE!r}, spool={str(tmp_path)!r}, select_deadline_s=0.5, report_deadline_s=300)
bots.select("guru", 1, ids=["a"])
import threading
assert any(thread.name == "bots-probe" for thread in threading.enumerate())
{end}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=ROOT, timeout=100, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_process_looks_for_the_service_with_a_thread_of_its_own(own_service, connect):
    bots = connect(own_service, select_deadline_s=1.0, report_deadline_s=1.0)
    own_service.kill()
    bots.report("guru", [Outcome.counts("t1", 1, 2)])
    child = os.fork()
    if child == 0:
        found = False
        try:
            bots.select("guru", 1, ids=IDS)
            is_away, end = bots.health.is_away, time.monotonic() + SOON_S
            while bots.health.is_away and time.monotonic() < end:
                time.sleep(0.05)
            found = is_away and not bots.health.is_away
        finally:
            os._exit(0 if found else 1)
    time.sleep(0.5)
    own_service.start()

    assert os.waitpid(child, 0)[1] == 0
    wait_for(lambda: not bots.health.is_away)
    assert bots.direct.run("guru").step == 1


def test_pauses_double_up_to_a_minute_and_are_never_shorter_than_the_service_asked_for(monkeypatch):
    monkeypatch.setattr(connection, "system_random", lambda: 1.0)

    assert [connection.pause_s(probes, 0.0) for probes in (0, 1, 2, 5, 6, 10**6)] == [1, 2, 4, 32, 60, 60]
    assert [connection.pause_s(0, asked_for_s) for asked_for_s in (30.0, 3600.0)] == [30, 60]


def test_without_a_thread_to_be_had_the_call_is_made_all_the_same(monkeypatch):
    def fail(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)

    assert connection.call_within(lambda: 7, 60) == 7

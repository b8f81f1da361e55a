"""The client that never stops training, and a service that goes away and comes back: training waits for it once."""

import gc
import json
import logging
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from bots_client import Health, InvalidRequestError, Outcome, ResilientClient, Selector
from bots_client._resilience import connection
from tests.client.answers import RECEIPT, RUN, SELECTION
from tests.client.resilience.worlds import IDS, QUICKLY_S, SOON_S, journalled, outcomes_of, spool_in, train, wait_for
from tests.client.scripted_server import answer, drop, problem
from tests.serving import NOWHERE


def test_while_the_service_is_there_it_selects_and_records(connect, service, dataset):
    bots = connect(service)
    selection = bots.select(dataset, 8, ids=IDS)
    receipt = bots.report(dataset, outcomes_of(selection), selection=selection)
    assert not selection.is_local
    assert (receipt.step, receipt.reported) == (1, 8)
    assert bots.health == Health(
        selects=1, reports=1, select_seconds=bots.health.select_seconds, report_seconds=bots.health.report_seconds
    )
    assert bots.health.select_seconds > 0 < bots.health.report_seconds
    assert not list(bots.spool.iterdir())


def test_while_the_service_is_away_the_choice_is_uniform_and_reports_wait(connect):
    bots = connect(NOWHERE, select_deadline_s=0.2, report_deadline_s=0.2)
    selections = [bots.select("guru", 10, ids=IDS) for _ in range(4)]
    receipts = [bots.report("guru", outcomes_of(one), selection=one) for one in selections]
    assert all(one.is_local and one.degraded for one in selections)
    assert sorted(task for one in selections for task in one.ids) == sorted(IDS)
    assert receipts == [None] * 4
    assert bots.health.is_away
    assert (bots.health.local_selects, bots.health.kept, bots.health.lost) == (4, 4, 0)
    assert "no BOTS service" in bots.health.last_error


def test_a_probe_is_put_and_training_goes_on_without_it_while_the_service_is_away(connect, service, dataset):
    values = {task: float(place) for place, task in enumerate(IDS)}
    assert connect(service).put_probe(dataset, values).estimates["probe_slope"] == 0
    away = connect(NOWHERE, report_deadline_s=0.2)
    begun = time.monotonic()
    assert away.put_probe(dataset, values) is None
    assert time.monotonic() - begun < SOON_S
    with pytest.raises(InvalidRequestError, match="no such tasks"):
        connect(service).put_probe(dataset, {"gone": 1.0, **values})


def test_ids_may_change_between_selections(connect):
    bots = connect(NOWHERE, select_deadline_s=0.2)
    ids = list(IDS)
    bots.select("guru", 10, ids=ids)
    del ids[4:]
    assert sorted(bots.select("guru", 4, ids=ids).ids) == ids


def test_no_ids_are_said_at_once_and_not_when_the_service_goes_away(connect, service, dataset):
    with pytest.raises(ValueError, match="ids is empty"):
        connect(service).select(dataset, 4, ids=[])


def chosen_while_away(connect, **how):
    bots = connect(NOWHERE, select_deadline_s=0.1, **how)
    return [bots.select("guru", 5, ids=IDS).ids for _ in range(3)]


def test_ranks_and_restarts_choose_different_tasks_while_the_service_is_away(connect):
    chosen = [chosen_while_away(connect) for _ in range(4)]
    assert len(set(map(str, chosen))) == 4


def test_with_a_seed_choices_follow_from_it_and_from_rank_and_restart(connect, monkeypatch):
    alike = [chosen_while_away(connect, seed=1) for _ in range(2)]
    others = [chosen_while_away(connect, seed=2)]
    for name in ("RANK", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.setenv(name, "1")
        others.append(chosen_while_away(connect, seed=1))
    assert alike[0] == alike[1]
    assert len(set(map(str, alike + others))) == 4


def test_a_selection_returns_in_time_when_looking_up_the_host_hangs(connect, monkeypatch):
    end = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: end.wait(QUICKLY_S) and [])
    bots = connect("http://selector.example", select_deadline_s=0.3)
    assert bots.select("guru", 4, ids=IDS).is_local
    assert re.search(r"within 0\.[23]\d? s", bots.health.last_error)  # what was left of the deadline
    end.set()


@pytest.mark.parametrize(("status", "waits"), [(401, 1), (403, 1), (404, 1), (503, 1), (409, 0), (422, 0)])
def test_with_on_mistake_warn_no_answer_raises_and_what_was_refused_for_its_content_is_put_aside(
    connect, serve, status, waits
):
    bots = connect(serve(problem(status)), on_mistake="warn", select_deadline_s=0.3, report_deadline_s=0.3)
    assert bots.select("guru", 4, ids=IDS).is_local
    bots.report("guru", [Outcome.counts("t1", 1, 2)])
    spool = spool_in(bots)
    assert spool.waiting() == waits
    assert [str(status) in str(kept.refused) for kept in spool.refused()] == [True] * (1 - waits)
    assert bots.health.refused == 1 - waits


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_report_waits_behind_a_proxys_refusal_and_is_sent_once_the_proxy_lets_it_through(connect, serve, status):
    page = answer(b"<html>413 Request Entity Too Large</html>", status, {"Content-Type": "text/html"})
    server = serve(page)
    bots = connect(server, select_deadline_s=0.3, report_deadline_s=QUICKLY_S)
    assert bots.select("guru", 4, ids=IDS).is_local
    assert bots.report("guru", [Outcome.counts("t1", 1, 2)]) is None
    assert (bots.health.is_away, bots.health.kept, bots.health.refused) == (True, 1, 0)
    server.acts = (answer(RUN | RECEIPT),)
    assert bots.flush(QUICKLY_S) == 0
    assert (bots.health.replayed, bots.health.refused) == (1, 0)


def test_an_outcome_that_cannot_be_sent_raises_and_is_counted(connect, service, dataset):
    bots = connect(service)
    with pytest.raises(InvalidRequestError):
        bots.report(dataset, [Outcome("t1", (("successes", float("nan")),))])
    assert bots.health.refused == 1
    assert journalled(bots, dataset) == []


def test_one_outcome_that_cannot_be_true_does_not_cost_the_others(connect, service, dataset):
    bots = connect(service)
    selection = bots.select(dataset, 4, ids=IDS)
    flawed = [Outcome.counts(selection.ids[0], 9, 4), Outcome.counts("no such task", 1, 4)]

    with pytest.raises(InvalidRequestError):
        bots.report(dataset, flawed + outcomes_of(selection)[1:], selection=selection, close_step=True)

    run = bots.direct.run(dataset)
    assert (run.step, run.totals.reported) == (1, 3)
    assert journalled(bots, dataset) == ["report"]
    refused = [
        (outcome["task"], str(kept.refused))
        for kept in spool_in(bots, dataset).refused()
        for outcome in json.loads(kept.body)["outcomes"]
    ]
    assert [task for task, _ in refused] == ["no such task", selection.ids[0]]
    assert "no task 'no such task'" in refused[0][1]
    assert "9.0 successes of 4.0 trials" in refused[1][1]
    assert bots.health.refused == 2


def test_a_wrong_on_mistake_is_said_at_once(tmp_path):
    with pytest.raises(ValueError, match="warn"):
        ResilientClient(on_mistake="ignore", spool=tmp_path)  # type: ignore[arg-type]


def test_going_away_and_coming_back_are_told_once_each(connect, serve, caplog):
    caplog.set_level(logging.WARNING, "bots_client")
    server = serve(drop, drop, drop, drop, drop, drop, answer(SELECTION))
    bots = connect(server, select_deadline_s=0.2)
    wait_for(lambda: bots.select("guru", 2, ids=IDS).selection_id)
    messages = [record.message for record in caplog.records]
    assert sum("is unavailable" in message for message in messages) == 1
    assert sum("is back after" in message for message in messages) == 1


def test_an_error_that_goes_on_is_logged_again_and_not_each_time(connect, serve, caplog, monkeypatch):
    acts = [problem(404, headers={"X-Request-Id": f"r{n}"}) for n in range(5)]
    bots = connect(serve(*acts, problem(403)), on_mistake="warn", select_deadline_s=5.0)
    for _ in range(8):
        bots.select("guru", 2, ids=IDS)
    monkeypatch.setattr(connection, "AGAIN_S", 0.0)
    bots.select("guru", 2, ids=IDS)
    assert [record.message[:3] for record in caplog.records if record.levelno == logging.ERROR][:2] == ["404", "403"]
    assert "403" in {record.message[:3] for record in caplog.records[2:]}


def test_threads_may_share_it(connect, service, dataset):
    bots = connect(service, report_deadline_s=QUICKLY_S)
    receipts = []

    def work():
        for _ in range(10):
            selection = bots.select(dataset, 1, ids=IDS)
            receipts.append(bots.report(dataset, outcomes_of(selection), selection=selection))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(receipt.seq for receipt in receipts) == list(range(1, 41))


def test_a_forked_process_has_a_connection_of_its_own(service, dataset, tmp_path):
    """Parent and children use one client at once; sockets or locks that they shared would mix answers or hang."""
    program = f"""
import os, threading
from bots_client import Outcome, ResilientClient
ids = {IDS!r}
bots = ResilientClient({service.url!r}, spool={str(tmp_path)!r}, report_deadline_s=20, select_deadline_s=20)
def work():
    for _ in range(5):
        selection = bots.select({dataset!r}, 1, ids=ids)
        assert not selection.is_local, bots.health
        assert bots.report({dataset!r}, [Outcome.counts(selection.ids[0], 1, 2)], selection=selection), bots.health
work()
bots._lock.acquire()  # as another thread may hold it at the moment of the fork
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0 if bots.health.reports == 5 else 1)
    children.append(child)
bots._lock.release()
work()
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        cwd=Path(__file__).parents[3],
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr

    with ResilientClient(service.url, spool=tmp_path) as bots:
        assert bots.direct.run(dataset).seq == 25


def test_a_key_is_neither_shown_nor_written_to_disk(connect):
    bots = connect(NOWHERE, api_key="bots_secret", report_deadline_s=0.1)
    bots.report("guru", [Outcome.counts("t1", 1, 2)])
    assert "bots_secret" not in repr(bots)
    assert not any(b"bots_secret" in file.read_bytes() for file in bots.spool.iterdir())
    assert "bots_secret" not in bots.health.last_error


def test_the_answer_to_a_report_is_the_receipt_even_if_it_went_by_way_of_the_disk(connect, serve):
    server = serve(drop)
    connect(server.url, report_deadline_s=0.1).report("guru", [Outcome.counts("t1", 1, 2)])
    server.acts = (answer(RECEIPT),)
    next_job = connect(server.url, report_deadline_s=QUICKLY_S)
    receipt = next_job.report("guru", [Outcome.counts("t1", 1, 2)])
    assert receipt is not None
    assert receipt.seq == RECEIPT["seq"]
    assert (next_job.health.replayed, next_job.health.kept) == (2, 0)


AT_ONCE_S = 5.0  # a hundred times what it takes, and less than the deadlines, which it must not wait for
OF_THE_LAST_STEP = {"bots/effective_task_ratio", "bots/step", "bots/selected_mean"}
ROOT = Path(__file__).parents[3]


def trained(selector, seconds, until=lambda: False):
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        begun = time.monotonic()
        train(selector)
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

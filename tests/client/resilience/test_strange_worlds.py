"""What a training job meets that nobody planned: answers of strangers, broken disks, forks, reports refused in part."""

import json
import os
import signal
import sqlite3
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_client import FieldError, Outcome, Selection, Selector
from bots_client._resilience.client import LocalPool
from bots_client._resilience.delivery import split_report
from tests.client.answers import RECEIPT, RUN
from tests.client.resilience.worlds import IDS, QUICKLY_S, outcomes_of, spool_in, train, wait_for
from tests.client.scripted_server import answer, drop


@pytest.mark.parametrize("garbage", [b"<html>Back soon</html>", {"status": "ok"}], ids=["a page", "other JSON"])
def test_a_strangers_200_is_no_receipt_for_what_was_kept(connect, serve, garbage):
    server = serve(drop, *[answer(garbage)] * 2, answer(RUN | RECEIPT))
    bots = connect(server, report_deadline_s=0.3)
    bots.report("guru", [Outcome.counts("t1", 1, 2)], idempotency_key="k1")
    wait_for(lambda: len(server.received) >= 2)
    assert bots.health.replayed == 0
    assert bots.flush(QUICKLY_S) == 0
    assert {request.key for request in server.received} == {"k1", None}


def test_a_spool_that_cannot_be_opened_stops_no_checkpoint(connect, service, dataset):
    bots = connect(service)
    selector = Selector(bots, dataset, ids=IDS)
    train(selector)
    spool_in(bots, dataset).file.mkdir()
    state = selector.state_dict()
    bots.report(dataset, outcomes_of(selector.next(4)))
    selector.load_state_dict(state)
    assert state["saved"]["step"] == 1
    assert bots.direct.run(dataset).step == 1
    assert "can't read" in bots.health.last_error


def test_a_forked_process_neither_reports_what_its_parent_observed_nor_waits_for_its_locks(connect, service, dataset):
    selector = Selector(connect(service), dataset, ids=IDS)
    first, second = selector.next(2).ids
    selector.observe(first, [1, 0])
    is_within, may_go_on = threading.Event(), threading.Event()

    class Slow(Selection):
        @property
        def ids(self):
            is_within.set()
            may_go_on.wait(QUICKLY_S)
            return ()

    slow = Slow(selection_id="s", dataset=dataset, run="default", tasks=())
    giving_back = threading.Thread(target=selector.give_back, args=[slow])
    giving_back.start()  # and holds what keeps threads apart at the moment of the fork
    is_within.wait(QUICKLY_S)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the runner's own would raise here, and the child go on as it
        signal.alarm(20)
        reported = 0
        try:
            selector.observe(second, [1, 0])
            receipt = selector.step()
            reported = 0 if receipt is None else receipt.reported
        finally:
            os._exit(0 if reported == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    may_go_on.set()
    giving_back.join()

    receipt = selector.step()
    assert receipt is not None
    assert receipt.reported == 1
    assert selector.client.direct.run(dataset).totals.rollouts == 4


def test_a_run_whose_reports_are_refused_for_now_does_not_keep_the_others_from_being_sent(connect, service, dataset):
    bots = connect(service, report_deadline_s=0.0)
    for run in ("missing", "default"):
        assert bots.report(dataset, [Outcome.counts("t1", 1, 2)], run=run) is None
    wait_for(lambda: bots.flush(4.0) <= 1)
    assert bots.direct.run(dataset).totals.rollouts == 2


def test_a_spool_that_another_process_holds_leaves_time_for_the_service(connect, service, dataset):
    bots = connect(service, select_deadline_s=1.9)
    holder = sqlite3.connect(spool_in(bots, dataset).file, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        selection = bots.select(dataset, 4, ids=IDS)
    finally:
        holder.close()
    assert not selection.is_local
    assert not bots.health.is_away


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("headers", "{"),
        ("path", b"\xff"),
        ("body", 7),
        ("body", b'{"dataset": "gurv", "run": "default", "outcomes": []}'),
    ],
)
def test_a_damaged_row_is_put_aside_and_told_and_all_others_are_sent(connect, serve, column, value):
    server = serve(drop)
    bots = connect(server, report_deadline_s=0.3)
    for n in range(3):
        bots.report("guru", [Outcome.counts(f"t{n}", 1, 2)], idempotency_key=f"k{n}")
    change = f"UPDATE reports SET {column} = CAST(? AS {'TEXT' if column != 'body' else 'BLOB'}) WHERE position = 2"  # noqa: S608
    with sqlite3.connect(spool_in(bots).file) as db:
        db.execute(change, (value,))
    server.acts = (answer(RUN | RECEIPT),)
    already = len(server.received)

    assert bots.flush(QUICKLY_S) == 0

    sent = [request.key for request in server.received[already:] if request.method == "POST"]
    assert sent == ["k0", "k2"]
    assert (bots.health.replayed, bots.health.lost) == (2, 1)
    assert [kept.position for kept in spool_in(bots).refused()] == [2]


@pytest.mark.parametrize("is_known", [True, False])
def test_what_a_damaged_file_held_is_counted_even_by_a_job_that_never_read_it(connect, is_known):
    bots = connect("http://127.0.0.1:9", report_deadline_s=0.1)
    for n in range(3):
        bots.report("guru", [Outcome.counts(f"t{n}", 1, 2)])
    spool_in(bots).file.write_bytes(b"no database at all" * 1000)
    job = bots if is_known else connect("http://127.0.0.1:9", report_deadline_s=0.1)
    job.report("guru", [Outcome.counts("late", 1, 2)])
    assert job.health.lost == (3 if is_known else 1)


def test_a_spool_that_is_damaged_in_the_middle_loses_no_later_report(connect):
    bots = connect("http://127.0.0.1:9", report_deadline_s=0.1)
    for n in range(40):
        bots.report("guru", [Outcome.counts(f"t{n}", 1, 2)])
    file = spool_in(bots).file
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"?" * (file.stat().st_size - 4096))
    bots.report("guru", [Outcome.counts("late", 1, 2)])
    bots.report("guru", [Outcome.counts("later", 1, 2)])
    assert bots.health.lost == 40
    assert spool_in(bots).waiting() == 2
    assert len(list(bots.spool.glob("*.damaged-*"))) == 1


BODY = json.dumps({"dataset": "guru", "outcomes": [{"task": name} for name in "abcd"]}).encode()


def at(*loc):
    return FieldError(("body", *loc), "it cannot be true")


def test_a_step_does_not_close_without_evidence():
    body = json.dumps({"close_step": True, "outcomes": [{"task": "a"}, {"task": "b"}]}).encode()
    parts = [split_report(body, [at("outcomes", place) for place in range(count)]) for count in (1, 2)]
    assert [json.loads(sound)["close_step"] for sound, _ in filter(None, parts)] == [True, False]


@pytest.mark.parametrize(
    "flaws",
    [
        [],
        [at("outcomes")],
        [at("dataset")],
        [at("outcomes", 1), at("run")],
        [at("outcomes", n, "task") for n in range(4)],
        [at("outcomes", 4)],
    ],
    ids=["none", "all of them", "elsewhere", "here and elsewhere", "every one", "one that is not there"],
)
def test_a_report_that_cannot_be_saved_is_left_whole(flaws):
    assert split_report(BODY, flaws) is None


POOLS = st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=12, unique=True)


@given(POOLS, st.integers(0, 30), st.data())
def test_a_choice_repeats_nothing_while_others_are_left_and_keeps_out_what_is_not_wanted(ids, count, data):
    unwanted = data.draw(st.lists(st.sampled_from(ids), unique=True))
    wanted = set(ids) - set(unwanted) or set(ids)
    chosen = LocalPool(ids, "seed").choose(count, unwanted)
    assert len(chosen) == count
    assert set(chosen) <= wanted
    assert len(set(chosen)) == min(count, len(wanted))

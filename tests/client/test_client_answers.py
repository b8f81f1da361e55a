"""What the client makes of answers: values, and lists followed from page to page."""

from datetime import UTC, datetime, timedelta

import pytest

from bots_client import Coverage, Fork, MixShare, PoolChange, ServiceError, Totals
from tests.client.answers import BELIEF, DATASET, HISTORY_STEP, LEASES, RECEIPT, RUN, SELECTION, SNAPSHOT, page
from tests.client.scripted_server import answer


def test_a_dataset_is_read_in_full(serve, connect):
    dataset = connect(serve(answer(DATASET))).dataset("guru")

    assert dataset.reference_models == ("small", "large")
    assert (dataset.name, dataset.tasks, dataset.retired, dataset.profiles) == ("guru", 3, 1, 2)
    assert (dataset.tags, dataset.offset_tags) == ({"math": 2}, ("math",))
    assert dataset.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_run_is_read_in_full(serve, connect):
    run = connect(serve(answer(RUN))).run("guru")
    assert run.estimates == {"capability": 0.4}

    assert (run.settings.prior, run.settings.rollouts_per_task, run.settings.tasks_per_step) == ((1.0, 2.0), 8.0, 32)
    assert run.totals == Totals(
        reported=9, effective=5, all_solved=2, none_solved=2, rollouts=144.0, successes=70.5, late=1, distinct=6
    )
    assert run.coverage == Coverage(**RUN["coverage"])
    assert run.forked_from == Fork(run="other", step=3, seq=4)
    assert (run.epoch, run.step, run.seq, run.pending, run.leased) == (1, 12, 14, 2, 3)
    assert run.degraded is True
    assert run.created_at - timedelta(seconds=0.5) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_mix_is_read_with_numbers(serve, connect):
    shares = [{"tag": "math", "share": 0.75, "owed": 7.5, "given": 8}]
    mix = {"code": 1, "math": 3}
    run = connect(serve(answer({**RUN, "settings": {**RUN["settings"], "mix": mix}, "mix": shares}))).run("guru")
    assert run.settings.mix == {"code": 1.0, "math": 3.0}
    assert run.mix == (MixShare(tag="math", share=0.75, owed=7.5, given=8),)


def test_a_selection_and_a_receipt_are_read_in_full(serve, connect):
    bots = connect(serve(answer(SELECTION), answer(RECEIPT)))

    selection, receipt = bots.select("guru", 2), bots.report("guru", [])

    assert [(task.draw, task.mean, task.effective) for task in selection.tasks] == [(0.497, 0.52, 0.98), (None, 0.5, 1)]
    assert (selection.reused, selection.seq) == (1, 12)
    assert (receipt.effective_task_ratio, receipt.capability, receipt.late, receipt.expired) == (0.625, None, 1, 2)
    assert (receipt.duplicate, receipt.new_tasks, receipt.distinct_tasks) == (True, 5, 300)


def test_lists_are_read_in_full(serve, connect):
    bots = connect(serve(answer(page("tasks", BELIEF)), answer(page("history", HISTORY_STEP))))

    (belief,), (step,) = bots.tasks("guru"), bots.history("guru")

    assert (belief.alpha, belief.interval, belief.last_step, belief.tags) == (2.5, (0.2, 0.9), None, ("math",))
    assert (belief.effective, belief.variance, belief.attempts, belief.visits) == (0.75, 0.125, 17.0, 2)
    assert (step.brier, step.log_loss, step.rollouts, step.time.year) == (0.2, 0.6, 64.0, 2026)
    assert (step.new_tasks, step.distinct_tasks) == (3, 7)


def test_what_is_in_flight_is_read_in_full(serve, connect):
    found = connect(serve(answer(LEASES))).leases("guru")

    (lease,) = found.leases
    assert (found.leased, lease.tasks, lease.first, lease.expires_at.second) == (33, 32, ("math-17", "math-4"), 5)


def test_changes_of_a_pool_are_counted(serve, connect):
    server = serve(answer({"dataset": "guru", "retired": 1, "tasks": 2}))

    assert connect(server).retire_tasks("guru", ["a"]) == PoolChange(dataset="guru", tasks=2, retired=1)


def test_cursors_are_followed_to_the_end(serve, connect):
    server = serve(
        answer(page("tasks", {**BELIEF, "id": "a"}, {**BELIEF, "id": "b"}, cursor="c/1=")),
        answer(page("tasks", cursor="c2")),  # an empty page may come before the last
        answer(page("tasks", {**BELIEF, "id": "c"})),
    )

    found = connect(server).tasks("guru", tag="math")

    assert [belief.id for belief in found] == ["a", "b", "c"]
    where = "/datasets/guru/runs/default/tasks?tag=math"
    assert [one.target for one in server.received] == [where, f"{where}&cursor=c%2F1%3D", f"{where}&cursor=c2"]


@pytest.mark.parametrize(("limit", "requests"), [(0, 0), (1, 1), (2, 1), (3, 2)])
def test_a_limit_ends_the_list_and_no_page_is_asked_in_vain(serve, connect, limit, requests):
    server = serve(
        answer(page("snapshots", SNAPSHOT, SNAPSHOT, cursor="c1")), answer(page("snapshots", SNAPSHOT, SNAPSHOT))
    )

    assert len(connect(server).snapshots("guru", limit=limit)) == limit
    assert len(server.received) == requests


def test_a_cursor_that_leads_to_itself_ends_in_an_error(serve, connect):
    server = serve(answer(page("datasets", DATASET, cursor="c1")))

    with pytest.raises(ServiceError):
        connect(server).datasets()


@pytest.mark.parametrize("said", [[], {"next_cursor": None}, {"datasets": 3}, {"datasets": [], "next_cursor": 3}])
def test_a_page_that_makes_no_sense_is_the_services_fault(serve, connect, said):
    with pytest.raises(ServiceError, match="invalid body"):
        connect(serve(answer(said))).datasets()

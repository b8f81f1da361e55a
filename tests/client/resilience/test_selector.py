"""What a trainer says at each step, and what it is told: tasks, receipts, checkpoints, and what selecting gains."""

import json
import math
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from bots_client import Client, InvalidRequestError, Outcome, Selector
from bots_client._inputs import joined
from bots_client._selector import ESTIMATE_EVERY
from tests.client.resilience.worlds import IDS, QUICKLY_S, SOON_S, journalled, spool_in, train, train_on
from tests.client.scripted_server import problem, stay_silent
from tests.serving import NOWHERE


def belief_in(selector):
    beliefs = selector.client.direct.tasks(selector.dataset, selector.run)
    return {task.id: (task.mean, task.variance) for task in beliefs}


def test_a_step_in_which_nothing_was_observed_is_none(selector):
    selector.next(4)
    assert selector.step() is None
    assert journalled(selector.client, selector.dataset) == []


def test_evidence_of_two_selections_in_flight_closes_one_step_and_each_finds_its_own(selector):
    first, second = selector.next(3), selector.next(3)
    receipt = train_on(selector, (*second.ids, *first.ids))
    assert (receipt.step, receipt.reported, receipt.late) == (1, 6, 0)
    assert len(journalled(selector.client, selector.dataset)) == 2
    assert selector.client.direct.run(selector.dataset).leased == 0


def test_only_rank_0_closes_steps(connect, service, dataset):
    zero, one = (Selector(connect(service), dataset, ids=IDS, rank=rank) for rank in (0, 1))
    selection = zero.next(4, key="step-0")
    assert one.next(4, key="step-0").ids == selection.ids
    for rank, selector in enumerate((zero, one)):
        for task in selection.ids[rank::2]:
            selector.observe(task, [1, 0])
    receipts = [one.step(), zero.step()]
    assert [(receipt.step, receipt.closed) for receipt in receipts if receipt] == [(0, False), (1, True)]


def test_the_rank_is_that_of_the_environment(connect, service, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    assert Selector(connect(service), "guru", ids=IDS).rank == 3


def test_what_selections_may_hold_is_passed_on(connect, service, dataset):
    selector = Selector(connect(service), dataset, ids=IDS, tags=["no such tag"])
    with pytest.raises(InvalidRequestError, match="no such tag"):
        selector.next(2)


def test_the_service_selects_enough_tasks_and_without_it_twice_as_many_come(connect, service, dataset):
    selection = Selector(connect(service), dataset, ids=IDS).next(want_effective=5)
    assert 5 <= len(selection.tasks) <= len(IDS)
    assert (selection.expected_effective or 0.0) >= 5
    alone = Selector(connect(NOWHERE), "guru", ids=IDS)
    assert len(alone.next(want_effective=6).tasks) == 12
    assert sorted(alone.next(want_effective=len(IDS)).ids) == sorted(IDS)
    for count, wanted in ((None, None), (3, 3)):
        with pytest.raises(TypeError, match="either count or want_effective"):
            alone.next(count, want_effective=wanted)


@pytest.mark.parametrize(("ids", "message"), [([], "empty"), (["a", "b", "a"], "'a' twice")])
def test_ids_that_cannot_be_right_are_said_at_once(connect, ids, message):
    with pytest.raises(ValueError, match=message):
        Selector(connect(NOWHERE), "guru", ids=ids)


def test_metrics_tell_of_the_last_selection_and_step(selector):
    before = selector.metrics()
    assert math.isnan(before["bots/step"])

    selection = selector.next(4)
    receipt = train_on(selector, selection.ids)

    metrics = selector.metrics()
    assert metrics["bots/selected_mean"] == sum(task.mean for task in selection.tasks) / 4
    assert metrics["bots/effective_task_ratio"] == receipt.effective_task_ratio == 1.0
    assert metrics["bots/step"] == 1
    assert metrics["bots/selects"] == 1
    assert math.isnan(metrics["bots/capability"])
    assert metrics.keys() == before.keys()


def test_it_can_be_sent_to_workers(selector):
    selector.next(2)
    again = pickle.loads(pickle.dumps(selector))  # noqa: S301 - our own
    assert again.ids == selector.ids
    assert [receipt.step for receipt in train(again, 2)] == [1, 2]
    again.client.close()


def test_a_checkpoint_takes_the_run_back_bit_for_bit(selector):
    train(selector, 2)
    state = json.loads(json.dumps(selector.state_dict()))
    believed = belief_in(selector)
    train(selector, 3, rewards=[1, 1, 1, 0])
    assert belief_in(selector) != believed
    for task in selector.next(4).ids:
        selector.observe(task, [1])
    selector.load_state_dict(state)
    assert belief_in(selector) == believed
    assert selector.step() is None, "what was observed before is forgotten"
    assert selector.client.health.refused == 0
    assert train(selector, 1)[0].step == 3


def test_only_rank_0_saves_and_rewinds(connect, service, dataset):
    zero, one = (Selector(connect(service), dataset, ids=IDS, rank=rank) for rank in (0, 1))
    train(zero, 2)
    states = [selector.state_dict() for selector in (zero, one)]
    train(zero, 1)
    for selector, state in zip((zero, one), states, strict=True):
        selector.load_state_dict(state)
    one.load_state_dict(states[0])
    run = zero.client.direct.run(dataset)
    assert (run.step, run.epoch) == (2, 1)


def test_a_checkpoint_of_another_run_is_refused(selector, connect, service):
    other = Selector(connect(service), selector.dataset, "other", ids=IDS)
    with pytest.raises(ValueError, match="run 'other'"):
        selector.load_state_dict(other.state_dict())


@pytest.fixture
def begin_trainer(own_service, connect):
    """Return the selector of a trainer's new process, at a service that goes away and comes back."""
    return lambda: Selector(connect(own_service, select_deadline_s=2.0, report_deadline_s=2.0), "guru", ids=IDS)


def steps_and_rollouts(selector):
    run = selector.client.direct.run("guru")
    return run.step, run.totals.rollouts


@pytest.mark.parametrize("delivered", [False, True], ids=["still on disk", "delivered meanwhile"])
def test_reports_that_waited_when_the_checkpoint_was_made_belong_to_it(own_service, begin_trainer, delivered):
    trainer = begin_trainer()
    train(trainer, 2)
    own_service.kill()
    train(trainer, 3)
    state = trainer.state_dict()
    train(trainer, 2)  # after the checkpoint: to be forgotten
    if delivered:
        own_service.start()
        assert trainer.client.flush(30) == 0
        assert steps_and_rollouts(trainer) == (7, 7 * 4 * 2)

    again = begin_trainer()
    if not delivered:
        own_service.start()
    again.load_state_dict(state)
    assert again.client.flush(30) == 0

    assert steps_and_rollouts(again) == (5, 5 * 4 * 2)
    assert train(again, 1)[0].step == 6


def test_a_checkpoint_made_before_the_service_was_ever_there_changes_nothing(connect, caplog):
    selector = Selector(connect(NOWHERE, select_deadline_s=0.1, report_deadline_s=0.1), "guru", ids=IDS)
    selector.load_state_dict(selector.state_dict())
    assert "has no position of the run" in caplog.text


def test_a_trainer_that_crashes_again_before_the_service_is_back_goes_to_the_same_place(own_service, begin_trainer):
    trainer = begin_trainer()
    train(trainer, 2)
    own_service.kill()
    train(trainer, 3)
    state = trainer.state_dict()
    train(trainer, 1)

    again = trainer
    for _ in range(3):  # each crashes after a step
        again = begin_trainer()
        again.load_state_dict(state)
        train(again, 1)
    later = again.state_dict()  # a checkpoint of a process that never saw the service
    train(again, 2)
    again = begin_trainer()
    again.load_state_dict(later)
    own_service.start()
    assert again.client.flush(30) == 0

    assert steps_and_rollouts(again) == (6, 6 * 4 * 2)
    assert (again.client.direct.run("guru").epoch, again.client.health.refused) == (1, 0)


def test_a_report_that_another_process_delivers_while_the_run_is_rewound_counts_once(own_service, begin_trainer):
    """The service has it and the disk has it still, when the trainer comes back."""
    trainer = begin_trainer()
    train(trainer, 2)
    own_service.kill()
    train(trainer, 1)
    state = trainer.state_dict()
    trainer.client.close()  # that trainer ended: it no longer looks for the service, and delivers nothing
    own_service.start()
    again = begin_trainer()
    spool = spool_in(again.client)
    loading = threading.Thread(target=lambda: again.load_state_dict(state))
    with spool.turn() as is_mine:
        assert is_mine
        kept = spool.first()
        assert kept is not None
        httpx.post(f"{own_service.url}{kept.path}", content=kept.body, headers=kept.headers).raise_for_status()
        loading.start()
        time.sleep(0.2)
        spool.remove(kept.position)
    loading.join()
    assert again.client.flush(30) == 0

    assert steps_and_rollouts(again) == (3, 3 * 4 * 2)


def test_a_step_is_closed_on_what_others_reported(selector, connect, service):
    chosen = selector.next(4)
    assert selector.close_step() is None, "nobody reported anything"
    worker = connect(service)
    outcomes = [Outcome.rewards(task, [1, place % 2]) for place, task in enumerate(chosen.ids)]
    worker.report(selector.dataset, outcomes, selection=chosen, close_step=False)
    receipt = selector.close_step()
    assert (receipt.step, receipt.reported, receipt.effective) == (1, 4, 2)
    assert selector.metrics()["bots/effective_task_ratio"] == 2 / 4
    assert selector.close_step() is None


def test_a_run_that_closes_its_steps_is_left_to_it_and_its_last_step_told(selector, connect, service):
    selector.client.direct.update_run(selector.dataset, tasks_per_step=2)
    chosen = selector.next(3)
    outcomes = [Outcome.rewards(task, [1, place % 2]) for place, task in enumerate(chosen.ids)]
    assert selector.close_step() is None
    assert math.isnan(selector.metrics()["bots/step"])
    for outcome in outcomes:
        connect(service).report(selector.dataset, [outcome], selection=chosen)
    assert selector.close_step() is None
    run = selector.client.direct.run(selector.dataset)
    assert (run.step, run.pending) == (1, 1)
    assert (selector.metrics()["bots/effective_task_ratio"], selector.metrics()["bots/step"]) == (1 / 2, 1)


def test_shaped_rewards_say_whether_a_task_is_effective_and_successes_what_is_believed(selector):
    first, second, third = selector.next(3).ids
    selector.observe(first, [1.2, 1.0], successes=2)
    selector.observe(second, [1.2, 1.2], successes=2)
    selector.observe(third, [0.5, 0.5], effective=True)
    receipt = selector.step()
    totals = selector.client.direct.run(selector.dataset).totals
    assert (receipt.reported, receipt.effective, totals.all_solved) == (3, 2, 1)
    assert (totals.rollouts, totals.successes) == (6, 5)


def test_an_abort_is_reported_at_once(selector):
    first, second = selector.next(2).ids
    selector.observe(second, [1, 0])
    selector.observe(first, [None])  # one of its rollouts broke before
    selector.abort(first)
    run = selector.client.direct.run(selector.dataset)
    assert (run.seq, run.leased, run.pending) == (1, 1, 0)
    assert selector.step().reported == 1
    assert selector.client.direct.run(selector.dataset).seq == 2


def test_a_group_whose_rollouts_come_in_several_steps_counts_once(selector):
    early, late = selector.next(2).ids
    selector.observe(late, [1, None], group_size=4)
    selector.observe(early, [1, 0])
    assert selector.step().reported == 1
    run = selector.client.direct.run(selector.dataset)
    assert (run.unfinished_groups, run.leased) == (1, 1)
    selector.observe(late, [0, 0], group_size=4)
    receipt = selector.step()
    run = selector.client.direct.run(selector.dataset)
    assert (receipt.reported, receipt.effective, run.totals.rollouts) == (1, 1, 5)
    assert (run.unfinished_groups, run.leased, run.coverage.distinct_tasks) == (0, 0, 2)


@pytest.mark.parametrize("rewards", [None, math.nan, [None, math.inf]])
def test_a_group_without_any_reward_gives_its_task_back(selector, rewards):
    task = selector.next(1).ids[0]
    selector.observe(task, rewards)
    selector.step()
    run = selector.client.direct.run(selector.dataset)
    assert (run.totals.rollouts, run.leased) == (0, 0)
    assert selector.client.health.left_out_rollouts == np.size(rewards)


def test_rollouts_that_broke_do_not_abort_the_others_of_their_group(selector):
    broken, sound = selector.next(2).ids
    for reward in (math.nan, 1, 0, None):
        selector.observe(sound, reward)
    selector.observe(broken, None)
    merged = joined(Outcome.rewards(task, reward) for task, reward in [("a", None), ("a", 1), ("b", None)])
    selector.step()
    assert [(outcome.task, outcome.is_aborted, outcome.left_out) for outcome in merged] == [
        ("a", False, 1),
        ("b", True, 1),
    ]
    assert selector.client.direct.run(selector.dataset).totals.rollouts == 2
    assert selector.client.health.left_out_rollouts == selector.metrics()["bots/left_out_rollouts"] == 3


@pytest.mark.parametrize("rewards", ["1", {"correct": 1.0}, [[1, 0]], ["good"], [{"correct": 1}], object()])
def test_what_are_no_rewards_is_a_mistake_that_gives_the_task_back(connect, service, dataset, rewards):
    strict = Selector(connect(service), dataset, ids=IDS)
    lenient = Selector(connect(service, on_mistake="warn"), dataset, ids=IDS)
    with pytest.raises((InvalidRequestError, TypeError), match="number"):
        strict.observe(strict.next(1).ids[0], rewards)
    lenient.observe(lenient.next(1).ids[0], rewards)
    strict.step()
    lenient.step()
    assert strict.client.direct.run(dataset).leased == 0


GAIN = {"bots/uniform_effective_task_ratio", "bots/times_uniform"}
ABILITY = {"bots/ability"}


def teach_by_half(selector, steps=1):
    for _ in range(steps):
        for place, task in enumerate(selector.next(4).ids):
            selector.observe(task, [1, place % 2])
        selector.step()


def known(selector):
    """Return the names of the metrics that are numbers."""
    return {name for name, value in selector.metrics().items() if not math.isnan(value)}


def test_the_gain_is_the_last_steps_ratio_over_what_uniform_choice_could_expect(connect, service, dataset):
    selector = Selector(connect(service), dataset, ids=IDS)
    selector.next(1)
    assert not GAIN & known(selector)
    teach_by_half(selector)
    expected = selector.client.direct.run(dataset).uniform_effective_task_ratio
    metrics = selector.metrics()
    assert metrics["bots/uniform_effective_task_ratio"] == expected
    assert metrics["bots/times_uniform"] == (2 / 4) / metrics["bots/uniform_effective_task_ratio"]


def test_the_ability_is_what_the_tracker_estimates_and_the_belief_bots_has_none(connect, service, dataset):
    bots = connect(service)
    bots.direct.create_run(dataset, "papers", belief="bots")
    tracked, papers = Selector(bots, dataset, ids=IDS), Selector(bots, dataset, "papers", ids=IDS)
    teach_by_half(tracked)
    teach_by_half(papers)
    assert tracked.metrics()["bots/ability"] == bots.direct.run(dataset).estimates["ability"]
    assert not ABILITY & known(papers)


@pytest.fixture
def looks(monkeypatch):
    """The runs that clients look at, once for each time."""
    seen, run = [], Client.run

    def look(bots, *name):
        seen.append(name)
        return run(bots, *name)

    monkeypatch.setattr(Client, "run", look)
    return seen


def test_it_is_asked_for_once_in_ten_steps_and_the_newest_alone(selector, dataset, looks):
    follower = Selector(selector.client, dataset, ids=IDS, rank=1)
    teach_by_half(follower, 2)
    assert looks == []
    teach_by_half(selector, ESTIMATE_EVERY)
    assert looks == [(dataset, "default")]
    teach_by_half(selector)
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("act", "is_away"),
    [(stay_silent, True), (problem(503), False), (problem(404), False), (problem(500), False)],
    ids=["silent", "busy", "unknown", "broken"],
)
def test_a_service_that_cannot_tell_fails_no_step_and_takes_no_longer_than_a_report(
    connect, serve, service, dataset, monkeypatch, caplog, act, is_away
):
    there = Client.within

    def elsewhere(bots, *arguments, **options):
        """Return a client whose looks at a run go to another server."""
        other = there(bots, *arguments, **options)
        other.run = there(connect(serve(act)).direct, *arguments, **options).run
        return other

    monkeypatch.setattr(Client, "within", elsewhere)
    selector = Selector(connect(service, report_deadline_s=1.0), dataset, ids=IDS)
    begun = time.monotonic()
    teach_by_half(selector)
    assert time.monotonic() - begun < 3  # 1 s for the report, the rest for a loaded machine
    assert (selector.metrics()["bots/step"], selector.metrics()["bots/effective_task_ratio"]) == (1, 2 / 4)
    assert not GAIN & known(selector)
    assert ("is unavailable" in caplog.text) == is_away


ROOT = Path(__file__).parents[3]

# Saves a checkpoint after each step, asks for the tasks of one more, and never gets to report them.
TRAINER = """
import json, sys, time
from pathlib import Path
from bots_client import ResilientClient, Selector
url, dataset, folder, ids = sys.argv[1], sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4])
selector = Selector(ResilientClient(url, spool=folder / "spool"), dataset, ids=ids)
for step in (1, 2, 3):
    for task in selector.next(4).ids:
        selector.observe(task, [1, 0])
    selector.step()
    (folder / f"checkpoint-{step}.json").write_text(json.dumps(selector.state_dict(step=step)))
print(json.dumps(selector.next(4).ids), flush=True)
time.sleep(600)
"""


@pytest.fixture
def killed(service, dataset, tmp_path):
    """The folder of a trainer that was killed while it generated, and the tasks that it had in flight."""
    command = [sys.executable, "-c", TRAINER, service.url, dataset, str(tmp_path), json.dumps(IDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as trainer:
        assert trainer.stdout is not None
        in_flight = json.loads(trainer.stdout.readline())
        trainer.send_signal(signal.SIGKILL)
    return tmp_path, in_flight


@pytest.mark.parametrize("saved_at", [3, 1], ids=["newest", "older"])
def test_tasks_in_flight_when_a_trainer_was_killed_are_handed_out_first(selector, killed, saved_at):
    folder, in_flight = killed
    state = json.loads((folder / f"checkpoint-{saved_at}.json").read_text())
    selector.load_state_dict(state, step=saved_at)
    selections = [selector.next(count) for count in (3, 3)]
    assert {task for one in selections for task in one.ids[:3]} >= set(in_flight)
    assert set(selections[0].ids) <= set(in_flight)
    assert [one.epoch for one in selections] == [1, 1]
    receipt = train_on(selector, {task for one in selections for task in one.ids})
    assert (receipt.step, receipt.reported, receipt.late) == (saved_at + 1, 6, 0)
    assert selector.client.direct.run(selector.dataset).leased == 0


def test_tasks_in_flight_when_the_checkpoint_was_saved_are_handed_out_first_though_reported_since(selector):
    early, late = selector.next(4), selector.next(4)
    train_on(selector, early.ids)
    state = selector.state_dict()
    train_on(selector, late.ids)
    selector.load_state_dict(state)
    assert set(state["in_flight"]) == set(late.ids) == set(selector.next(4).ids)


def test_all_tasks_of_a_large_selection_are_saved_though_the_service_names_a_thousand(connect, service):
    ids = [f"t{n}" for n in range(2500)]
    selector = Selector(connect(service), "large", ids=ids)
    selector.register()
    mine = selector.next(1536)
    train_on(selector, mine.ids[:36])
    Selector(connect(service), "large", ids=ids).next(8)
    state = selector.state_dict()
    selector.load_state_dict(state)
    assert sorted(state["in_flight"]) == sorted(mine.ids[36:])
    assert set(selector.next(1500).ids) == set(mine.ids[36:])


def test_only_tasks_of_this_job_that_nobody_reported_are_saved_as_in_flight(selector, connect, service):
    mine = selector.next(4)
    Selector(connect(service), selector.dataset, ids=IDS).next(4)
    selector.client.report(selector.dataset, [], selection=mine, close_step=True)
    train_on(selector, mine.ids[:1])
    assert set(selector.state_dict()["in_flight"]) == set(mine.ids[1:])


def test_tasks_in_flight_are_handed_out_first_while_the_service_is_away(selector, connect):
    state = selector.state_dict() | {"in_flight": ["t7", "unknown", "t3"]}
    away = connect(NOWHERE, select_deadline_s=0.1, report_deadline_s=0.1)
    resumed = Selector(away, selector.dataset, ids=IDS)
    resumed.load_state_dict(state)
    assert resumed.next(4).ids[:2] == ("t7", "t3")
    assert set(resumed.next(4).ids[:2]) != {"t7", "t3"}  # only once, though chance may choose one of them again


@pytest.mark.parametrize(
    ("saved", "resumed"),
    [({"step": 300}, {"step": 400}), ({"step": 3, "checkpoint": "a"}, {"step": 3, "checkpoint": "b"})],
)
def test_a_state_of_another_checkpoint_is_said_aloud_and_takes_the_run_nowhere(
    selector, connect, service, caplog, saved, resumed
):
    state = selector.state_dict(**saved)
    train(selector)
    name, now = list(resumed.items())[-1]
    with pytest.raises(ValueError, match=f"{name} {saved[name]!r}, but the trainer resumes from {name} {now!r}"):
        selector.load_state_dict(state, **resumed)
    caplog.clear()
    Selector(connect(service, on_mistake="warn"), selector.dataset, ids=IDS).load_state_dict(state, **resumed)
    assert f"{name} {saved[name]!r}" in caplog.text
    run = selector.client.direct.run(selector.dataset)
    assert (run.step, run.epoch) == (1, 0)


@pytest.mark.parametrize("saved", [{}, {"step": 3}, {"step": 3, "checkpoint": "a"}])
def test_what_is_not_known_of_a_checkpoint_is_not_compared(selector, saved):
    state = selector.state_dict(**saved)
    train(selector)
    selector.load_state_dict(state, step=3)
    assert selector.client.direct.run(selector.dataset).step == 0


def test_a_run_that_was_made_anew_since_the_checkpoint_is_said_aloud_and_not_taken_back(selector, caplog):
    train(selector, 3)
    state = selector.state_dict()
    selector.client.direct.delete_run(selector.dataset, "default")  # which is there again at once, empty
    train(selector, 2)
    selector.load_state_dict(state)
    assert "its journal has 2 entries, and had 3 when the checkpoint was saved" in caplog.text
    assert selector.client.direct.run(selector.dataset).epoch == 0


def measured(selector):
    return selector.client.direct.summary(selector.dataset).evaluations


def test_what_was_measured_waits_for_a_service_that_is_away_and_counts_at_the_step_that_it_followed(
    own_service, connect
):
    selector = Selector(connect(own_service, report_deadline_s=2.0), "guru", ids=IDS)
    train(selector, 1)
    selector.evaluate({"a": 0.1, "not finite": math.nan, "nothing": None})
    assert measured(selector) == {"a": ((1, 0.1),)}
    own_service.kill()
    train(selector, 1)
    begun = time.monotonic()
    selector.evaluate({"a": 0.2})
    selector.finish()
    assert time.monotonic() - begun < QUICKLY_S
    train(selector, 1)
    assert (selector.client.health.kept, selector.client.health.lost) == (3, 0)
    own_service.start()
    assert selector.client.flush(SOON_S) == 0
    assert measured(selector) == {"a": ((1, 0.1), (2, 0.2))}
    assert selector.client.direct.summary("guru").status != "finished"  # nobody heard it
    selector.finish()
    assert selector.client.direct.summary("guru").status == "finished"


def test_a_measurement_that_can_t_be_is_a_mistake(selector):
    with pytest.raises(InvalidRequestError):
        selector.evaluate({"a" * 1000: 0.1})
    with pytest.raises(TypeError):
        selector.evaluate({"a": "0.1"})
    train(selector, 1)
    assert selector.client.health.kept == 0


def test_only_rank_0_says_what_was_measured_and_that_training_ended(connect, service, dataset):
    one = Selector(connect(service), dataset, ids=IDS, rank=1)
    one.evaluate({"a": 0.1})
    one.finish()
    found = one.client.direct.summary(dataset)
    assert (found.evaluations, found.status) == ({}, "new")


def test_a_checkpoint_takes_back_what_was_measured_after_it(selector):
    train(selector, 1)
    selector.evaluate({"a": 0.1})
    saved = selector.state_dict()
    train(selector, 1)
    selector.evaluate({"a": 0.2})
    selector.load_state_dict(saved)
    assert measured(selector) == {"a": ((1, 0.1),)}

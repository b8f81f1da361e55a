import inspect
import logging
import math
import multiprocessing
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bots_client import Client, InvalidRequestError, ResilientClient, Selector, Task
from bots_client.integrations import rewards
from bots_client.integrations.rewards import SplitRollouts, flush, guarded, named, reports_groups, reports_rollouts

IDS = [f"task-{number}" for number in range(8)]


@pytest.fixture
def url(service):
    return service.url


@pytest.fixture
def dataset(url, request):
    with Client(url) as direct:
        direct.create_dataset(request.node.name.partition("[")[0], [Task(name) for name in IDS])
    return request.node.name.partition("[")[0]


@pytest.fixture
def client(url, tmp_path):
    with ResilientClient(url, spool=tmp_path) as client:
        yield client
        assert flush()


@pytest.fixture
def connect_to_service(url, tmp_path, open_until_the_end):
    def connect(**how):
        return open_until_the_end.enter_context(ResilientClient(url, spool=tmp_path, **how))

    return connect


@pytest.fixture
def selector(client, dataset):
    return Selector(client, dataset, ids=IDS, rank=0)


def state(client, dataset):
    assert flush()
    return client.direct.run(dataset)


def right(prompts, completions, answer, **_columns):
    """Stands for a user's reward function, of the form that TRL calls."""
    return [float(completion == wanted) for completion, wanted in zip(completions, answer, strict=True)]


def batch(tasks, generations=4, selection=""):
    """One batch, as TRL hands it to reward functions: each task's rollouts in a row; every second one is right."""
    column = [task for task in tasks for _ in range(generations)]
    return {
        "prompts": ["?"] * len(column),
        "completions": ["yes", "no"] * (len(column) // 2),
        "answer": ["yes"] * len(column),
        "task_id": column,
        "selection_id": [selection] * len(column),
        "trainer_state": object(),
    }


def test_a_batch_is_reported_by_tasks_and_closes_a_step(client, dataset, selector):
    selection = selector.next(3)
    given = reports_groups(selector)(right)(**batch(selection.ids, selection=selection.selection_id))
    assert given == [1.0, 0.0] * 6
    run = state(client, dataset)
    assert (run.step, run.leased) == (1, 0)
    assert (run.totals.reported, run.totals.rollouts, run.totals.successes) == (3, 12, 6)


def test_rewards_that_do_not_apply_are_no_evidence(client, dataset, selector):
    selection = selector.next(2)
    first, second = selection.ids
    columns = {"task_id": [first] * 4 + [second] * 2, "selection_id": [selection.selection_id] * 6}
    reports_groups(selector)(lambda **_columns: [1.0, None, math.nan, -math.inf, None, None])(**columns)
    run = state(client, dataset)
    assert (run.totals.reported, run.totals.rollouts, run.totals.successes) == (1, 1, 1)
    assert run.leased == 0, "the lease of the task without evidence is given back"
    assert client.health.left_out_rollouts == 5


def test_steps_close_after_so_many_tasks_where_groups_come_one_by_one(client, dataset, selector):
    score = reports_groups(selector, tasks_per_step=2)(right)
    for task in selector.next(3).ids:
        score(**batch([task]))
    assert state(client, dataset).step == 1


@pytest.mark.parametrize(
    ("columns", "rewards", "complaint"),
    [
        ({"selection_id": ["s"]}, [1.0], "'task_id' is not one of selection_id"),
        ({"task_id": ["task-0"]}, [1.0], "'selection_id' are taken for those of an evaluation"),
        ({"task_id": ["task-0"], "selection_id": ["s"]}, iter([1.0]), "must be a list or an array"),
        ({"task_id": ["task-0"], "selection_id": ["s"]}, [1.0, 0.0], "shorter|longer"),
        ({"task_id": ["task-0"], "selection_id": ["s"]}, ["good"], "'good' is not a number"),
        ({"task_id": ["task-0"], "selection_id": ["s"]}, {"correct": [1.0]}, "expected a list of numbers"),
    ],
)
def test_what_cannot_be_reported_is_logged_once_and_changes_nothing(
    client, dataset, selector, caplog, columns, rewards, complaint
):
    score = reports_groups(selector)(lambda **_columns: rewards)
    with caplog.at_level(logging.WARNING, "bots_client"):
        assert score(**columns) is rewards
        assert score(**columns) is rewards
    assert state(client, dataset).seq == 0
    [record] = caplog.records
    assert re.search(complaint, record.message)


@pytest.mark.parametrize("kind", ["groups", "rollouts"])
@pytest.mark.parametrize("raises", [True, False])
def test_a_mistake_raises_from_the_next_call_unless_the_client_only_warns(url, dataset, tmp_path, kind, raises):
    with ResilientClient(url, spool=tmp_path, on_mistake="raise" if raises else "warn") as client:
        selector = Selector(client, dataset, ids=IDS, rank=0)
        reporting = reports_groups(selector) if kind == "groups" else reports_rollouts(client, dataset)
        score = reporting(lambda **_row: [-1.0] if kind == "groups" else -1.0)
        row = {"task_id": "task-0", "selection_id": ""}
        given = {name: [value] for name, value in row.items()} if kind == "groups" else row
        score(**given)
        assert flush()

        if raises:
            with pytest.raises(InvalidRequestError, match="is outside"):
                score(**given)
        else:
            score(**given)
        assert flush()

        assert client.health.refused == 2


def test_a_function_returns_before_its_report_has_arrived(selector, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = ResilientClient(f"http://127.0.0.1:{silent.getsockname()[1]}", spool=tmp_path / "away")
        score = reports_groups(Selector(client, "guru", ids=IDS, rank=0))(right)
        assert score(**batch(["task-0"])) == [1.0, 0.0] * 2
        assert not flush(0), "the service has accepted a connection, and answers nothing"
    assert flush(30)
    assert client.health.kept == 1


def always_right(extra_info):
    """Stands for a user's reward function, of the form that verl calls."""
    return 1.0


@pytest.fixture
def by_rollout(client, url, request):
    """A dataset whose steps close by themselves, as for functions that see one rollout at a time."""
    name = request.node.name.partition("[")[0]
    client.direct.create_dataset(name, [Task(task) for task in IDS])
    client.direct.create_run(name, "default", tasks_per_step=1)
    return name


def test_rollouts_as_verl_scores_them_are_reported(client, by_rollout):
    @reports_rollouts(client, by_rollout)
    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        return {"score": 2.0 * (solution_str == ground_truth) - 1, "acc": True}

    selection = client.select(by_rollout, 2, ids=IDS)
    for task in selection.ids:
        row = {"task_id": task, "selection_id": selection.selection_id}
        assert compute_score("gsm8k", "4", ground_truth="4", extra_info=row) == {"score": 1.0, "acc": True}
        assert compute_score("gsm8k", "5", "4", row) == {"score": -1.0, "acc": True}
    run = state(client, by_rollout)
    assert (run.totals.rollouts, run.totals.successes, run.leased) == (4, 4, 0)
    assert run.totals.effective == 2, "the scores say whether a group teaches"


def test_rollouts_of_many_threads_become_one_report_for_each_selection(client, dataset, monkeypatch):
    monkeypatch.setattr(rewards, "GATHER_S", 60)  # until they are sent for
    score = reports_rollouts(client, dataset, close_step=False)(always_right)
    chosen = [client.select(dataset, 4, ids=IDS) for _ in range(2)]
    rows = [{"task_id": task, "selection_id": one.selection_id} for one in chosen for task in one.ids]
    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(score, rows * 50)) == [1.0] * 400
    run = state(client, dataset)
    assert (run.seq, run.step, run.pending, run.leased) == (2, 0, 8, 0)
    client.report(dataset, [], close_step=True)
    assert client.direct.run(dataset).totals.rollouts == 400


def test_a_reward_that_is_no_number_is_left_out_and_the_others_count(client, by_rollout, caplog):
    score = reports_rollouts(client, by_rollout)(lambda reward, **_row: reward)
    for reward in (math.inf, "excellent", None, math.nan, {"score": -math.inf, "acc": 1}, 0.5):
        score(reward, task_id="task-0", selection_id="")
    totals = state(client, by_rollout).totals
    assert (totals.rollouts, totals.successes) == (1, 0.5)
    assert client.health.left_out_rollouts == 4
    assert len(caplog.records) == 1, "what is no number is a mistake; a rollout without a reward is none"


def test_a_rollout_that_broke_does_not_end_the_lease_of_its_group(client, dataset):
    score = reports_rollouts(client, dataset, close_step=False)(lambda reward, **_row: reward)
    selection = client.select(dataset, 1, ids=IDS)
    score(None, task_id=selection.ids[0], selection_id=selection.selection_id)
    run = state(client, dataset)
    assert (run.seq, run.leased, client.health.left_out_rollouts) == (0, 1, 1)


def test_one_of_several_rewards_counts_or_their_sum():
    rewards = {"form": 0.25, "right": np.array(0.5)}
    assert [named(rewards, name) for name in ("form", "sum")] == [0.25, 0.75]
    assert named(0.5, "form") == 0.5


@pytest.mark.parametrize(
    ("way", "rewards", "successes"),
    [
        (None, [1, 0.25, 0, 1], 1 + 0.25 + 0 + 1),
        ("last", [1, 0.25, 0, 1], 1 + 0.25 + 0 + 1),
        ("max", [1, 0.5, 0, 1], 1 + 0.5 + 0 + 1),
        ("sum", [1, 1.25, 0, 1], 1 + 1 + 0 + 1),
    ],
)
def test_the_samples_of_a_rollout_make_one_reward_and_one_without_any_leaves_it_out(way, rewards, successes, caplog):
    rollouts: list[list[float | None]] = [[0, 1], [0.5, 0.5, 0.25], [0, 0], [1], [1, None], [math.nan], []]
    measured = SplitRollouts(way, option="the_option").measured(rollouts, rollouts)
    assert measured == ([*rewards, None, None, None], successes)
    assert [record.args[1] for record in caplog.records] == ["the_option"] * (way is None)


@pytest.mark.parametrize("kind", ["groups", "rollouts"])
def test_rows_that_no_selection_chose_are_of_an_evaluation_and_not_reported(client, dataset, selector, kind, caplog):
    reporting = reports_groups(selector) if kind == "groups" else reports_rollouts(client, dataset, close_step=False)
    score = reporting(lambda **row: [1.0] * len(row["task_id"]) if kind == "groups" else 1.0)
    trained: dict[str, object] = {"task_id": "task-0", "selection_id": ""}
    evaluated: dict[str, object] = {"task_id": "task-0", "answer": "4"}
    for row in (trained, evaluated, trained | {"selection_id": None}):
        score(**({name: [value] for name, value in row.items()} if kind == "groups" else row))
    assert flush()
    if kind == "rollouts":  # a decorator of groups has closed its step
        client.report(dataset, [], close_step=True)
    assert [step.rollouts for step in client.direct.history(dataset)][-1] == 1
    assert not caplog.records


def test_the_guard_logs_what_fails_and_lets_mistakes_through(connect_to_service, dataset, caplog):
    selector = Selector(connect_to_service(), dataset, ids=IDS, rank=0)
    careless = Selector(connect_to_service(on_mistake="warn"), dataset, ids=IDS, rank=0)
    for _ in range(2):
        with guarded("rewards of a test"):
            raise AttributeError("'dict' object has no attribute 'tolist'")
    with guarded("rewards of a test"):
        careless.observe("unknown", [1.0])
    with pytest.raises(InvalidRequestError, match="unknown"), guarded("rewards of a test"):
        selector.observe("unknown", [1.0])
    said = [record.message for record in caplog.records if "rewards of a test" in record.message]
    assert said == ["rewards of a test are not reported: 'dict' object has no attribute 'tolist'"]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that it has threads is what is tried
def test_a_forked_process_reports_its_own_rollouts_before_it_ends(client, by_rollout):
    score = reports_rollouts(client, by_rollout)(always_right)
    score({"task_id": "task-0", "selection_id": ""})
    row = {"task_id": "task-1", "selection_id": ""}
    child = multiprocessing.get_context("fork").Process(target=score, args=(row,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert state(client, by_rollout).totals.rollouts == 2


def test_a_decorated_function_keeps_its_name_and_signature(client):
    decorated = reports_rollouts(client, "guru")(always_right)
    assert (decorated.__name__, decorated.__module__) == ("always_right", __name__)
    assert list(inspect.signature(decorated).parameters) == ["extra_info"]

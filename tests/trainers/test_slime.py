"""The adapter for slime, against a service: with the real files of a checkout, and with the protocol they follow."""

import asyncio
import importlib
import math
import re
import sys
from argparse import Namespace
from types import ModuleType

import pytest
import yaml

from bots_client import Client, InvalidRequestError
from tests.trainers.hosts import (
    FORGETTING,
    blocks,
    create_pool,
    evidence_of,
    run_blocks,
    service_in,
    write_lines,
)
from tests.trainers.slimes import (
    ADAPTER,
    NAMES,
    SAMPLES,
    SOURCE,
    arguments,
    copies,
    finish,
    generate_at_once,
    names,
    rollouts,
    sample_type,
    slime_of,
)

NO_SOURCE = "SLIME_SOURCE names no checkout of slime: its real files are not run"
BEST = ["math-20", "math-3", "math-11", "math-7", "math-15", "math-0", "math-9", "math-22"]
FULLY_ASYNC = {
    "rollout_function_path": f"{ADAPTER}.generate_rollout_fully_async",
    "rollout_all_samples_process_path": None,
}


@pytest.fixture(scope="module")
def bots(tmp_path_factory):
    with service_in(tmp_path_factory.mktemp("slime")) as client:
        yield client


@pytest.fixture(scope="module", params=["protocol", "source"])
def adapter(request):
    """Our module, on one slime or the other."""
    if request.param == "source" and SOURCE is None:
        pytest.skip(NO_SOURCE)
    with slime_of(SOURCE if request.param == "source" else None) as module:
        yield module


@pytest.fixture
def dataset(bots: Client, adapter, request) -> str:
    """A pool of the test's own, of which BEST are selected first."""
    name = f"{request.node.originalname}-{sample_type(adapter).__module__.partition('.')[0]}"
    create_pool(bots, name, NAMES, first=BEST)
    return name


@pytest.fixture
def sourcing(adapter, dataset: str, tmp_path):
    """Make data sources; in the end their clients are closed."""
    sources = []

    def source(**changes):
        sources.append(adapter.ServiceDataSource(arguments(tmp_path, bots_dataset=dataset, **changes)))
        return sources[-1]

    yield source
    for each in sources:
        each.selector.client.close()


def test_groups_are_of_the_tasks_that_the_service_selects(bots: Client, sourcing, dataset):
    groups = sourcing().get_samples(3)
    assert names(groups) == BEST[:3]
    assert [[sample.index for sample in group] for group in groups] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [{sample.group_index for sample in group} for group in groups] == [{0}, {1}, {2}]
    assert len({sample.metadata["selection_id"] for group in groups for sample in group}) == 1
    assert bots.run(dataset).leased == 3


def test_every_group_is_reported_and_closes_one_step(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    groups = source.get_samples(3)
    for group, rewards in zip(groups, ([1, 0, 0, 0], [1, 1, 1, 1], [0.5, 0, 0, 0]), strict=True):
        finish(adapter, group, rewards)
    adapter.report_all_samples(source.args, groups, source.get_samples)  # slime hands over the method
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (1, 3), BEST[1]: (4, 0), BEST[2]: (0.5, 3.5)}
    assert (bots.run(dataset).step, bots.run(dataset).leased) == (1, 0)


def test_aborted_and_failed_rollouts_are_evidence_of_nothing(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    groups = source.get_samples(3)
    finish(adapter, groups[0], [1, 1, None, 0], ["completed", "truncated", "aborted", "failed"])
    finish(adapter, groups[1], [None] * SAMPLES, ["aborted"] * SAMPLES)
    finish(adapter, groups[2], [1, 0, 0, 0])
    adapter.report_all_samples(source.args, groups, source)
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (2, 0), BEST[2]: (1, 3)}
    assert (bots.run(dataset).leased, bots.run(dataset).totals.tokens) == (0, 3 * SAMPLES * 10)


def test_groups_that_slime_cancelled_may_be_selected_again(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    groups = source.get_samples(3)
    finish(adapter, groups[1], [1, 0, 0, 0])
    adapter.report_all_samples(source.args, groups[1:2], source)
    assert bots.run(dataset).leased == 0
    assert evidence_of(bots, dataset, NAMES) == {BEST[1]: (1, 3)}


def test_with_partial_rollouts_aborted_groups_come_back_first_with_their_selection(
    bots: Client, adapter, sourcing, dataset
):
    source = sourcing(partial_rollout=True)
    groups = source.get_samples(3)
    for group in groups[:2]:
        finish(adapter, group, [1, 0, 0, 0])
    adapter.report_all_samples(source.args, groups[:2], source.get_samples)
    assert bots.run(dataset).leased == 1
    source.add_samples(groups[2:])
    again = source.get_samples(3)
    assert names(again) == [BEST[2], BEST[3], BEST[4]]
    selections = [group[0].metadata["selection_id"] for group in again]
    assert selections[0] == groups[2][0].metadata["selection_id"] != selections[1] == selections[2]
    for group in again:
        finish(adapter, group, [0, 0, 0, 1])
    adapter.report_all_samples(source.args, again, source.get_samples)
    run = bots.run(dataset)
    assert (run.step, run.leased, run.totals.late) == (2, 0, 1)
    left = 1 - FORGETTING  # it was selected at step 0, and a step closed after it
    expected = {BEST[2]: pytest.approx((left, 3 * left)), BEST[3]: (1, 3), BEST[4]: (1, 3)}
    assert evidence_of(bots, dataset, BEST[2:]) == expected


def split_group(adapter, group, *rewards):
    """Return a group whose rollouts are split, each into a sample for each of its rewards."""
    split = []
    for sample, of_samples in zip(group, rewards, strict=True):
        parts = copies(sample, len(of_samples), rollout_id=sample.index)
        finish(adapter, parts, of_samples)
        split.append(parts)
    return split


SPLIT = ((0, 1), (0.25, 0.5, 0.25), (0, 0), (1,))


@pytest.mark.parametrize("is_flat", [False, True], ids=["lists", "rollout_id alone"])
@pytest.mark.parametrize(
    ("way", "rewards", "successes"),
    [
        (None, ((1, 1), (1, 1, 1), (0, 0), (1,)), 3),  # each sample has the whole reward
        ("sum", ((0.5, 0.5), (0.25, 0.5, 0.25), (0, 0), (1,)), 3),  # the samples share it
        (None, SPLIT, 1 + 0.25 + 0 + 1),
        ("last", SPLIT, 1 + 0.25 + 0 + 1),
        ("max", SPLIT, 1 + 0.5 + 0 + 1),
        ("sum", SPLIT, 1 + 1 + 0 + 1),
    ],
)
def test_a_rollout_of_several_samples_counts_once(
    bots: Client, adapter, sourcing, dataset, request, *, way, rewards, successes, is_flat
):
    run = re.sub(r"\W", "-", request.node.name)
    source = sourcing(bots_run=run, **({} if way is None else {"bots_rollout_reward": way}))
    group = split_group(adapter, source.get_samples(1)[0], *rewards)
    samples = [sample for rollout in group for sample in rollout]
    adapter.report_all_samples(source.args, [samples if is_flat else group], source.get_samples)
    totals = bots.run(dataset, run).totals
    assert (totals.rollouts, totals.successes) == (SAMPLES, successes)
    assert bots.run(dataset, run).leased == 0


def test_samples_with_different_rewards_are_told_with_the_option_that_decides(adapter, sourcing, caplog):
    source = sourcing()
    for group in source.get_samples(2):
        adapter.report_all_samples(source.args, [split_group(adapter, group, *SPLIT)], source.get_samples)
    [said] = [record.message for record in caplog.records if "bots_rollout_reward" in record.message]
    assert "sum or last or max" in said


def test_sums_of_what_each_sample_has_whole_raise_and_do_not_count_failures_alone(bots, adapter, sourcing, dataset):
    source = sourcing(bots_rollout_reward="sum")
    failed, solved = source.get_samples(2)
    groups = [split_group(adapter, failed, *[(0, 0)] * SAMPLES), split_group(adapter, solved, *[(1, 1)] * SAMPLES)]
    with pytest.raises(InvalidRequestError, match=r"reward 2 of task .* is outside"):
        adapter.report_all_samples(source.args, groups, source.get_samples)
    assert bots.run(dataset).totals.rollouts == 0


@pytest.mark.parametrize("adapter", ["source"], indirect=True)
def test_slimes_own_agents_give_each_sample_the_whole_reward_which_counts_once(bots, adapter, sourcing, dataset):
    trajectories = importlib.import_module("slime.agent.trajectory")
    source = sourcing()
    [group] = source.get_samples(1)
    manager, split = trajectories.TrajectoryManager(), []
    for sample in group:
        for start in ("main", "sub-agent"):  # two chains of messages: two samples
            turn = trajectories.TurnRecord(prompt_ids=[1], output_ids=[2], finish_reason="stop")
            asked, said = {"role": "user", "content": start}, {"role": "assistant", "content": "!"}
            manager.record_turn("a", turn=turn, prompt_messages=[asked], response_message=said)
        split.append(manager.get_trajectory("a", base_sample=sample, reward=float(sample.index % 2)))
    assert [len(samples) for samples in split] == [2] * SAMPLES
    adapter.report_all_samples(source.args, [split], source.get_samples)
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (SAMPLES / 2, SAMPLES / 2)}


def test_rollouts_without_a_reward_are_left_out_and_the_log_counts_them(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    broken, sound = source.get_samples(2)
    finish(adapter, broken, [1, None, math.nan, math.inf])
    finish(adapter, sound, [1, 0, 1, 0])
    adapter.report_all_samples(source.args, [broken, sound], source.get_samples)
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (1, 0), BEST[1]: (2, 2)}
    metrics: dict[str, float] = {}
    adapter.log_metrics(0, source.args, [], metrics, 1.5)
    assert metrics["bots/left_out_rollouts"] == 3


def test_rewards_that_cannot_be_read_end_no_rollout(bots: Client, adapter, sourcing, dataset, caplog):
    source = sourcing()
    named, sound = source.get_samples(2)
    finish(adapter, named, [{dataset: 1.0, "length": 7}] * SAMPLES)  # and no --reward-key
    finish(adapter, sound, [1, 0, 1, 0])
    adapter.report_all_samples(source.args, [named, sound], source.get_samples)
    assert evidence_of(bots, dataset, NAMES) == {BEST[1]: (2, 2)}
    assert bots.run(dataset).leased == 0
    assert f"{dataset}': 1.0" in caplog.text


def test_a_generate_function_may_drop_the_metadata(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    [group] = source.get_samples(1)
    finish(adapter, group, [1, 0, 0, 0])
    bare = [changed for sample in group for changed in copies(sample, 1, metadata={})]
    adapter.report_all_samples(source.args, [bare], source.get_samples)
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (1, 3)}


def test_of_several_rewards_the_configured_one_counts(bots: Client, adapter, sourcing, dataset):
    source = sourcing(reward_key="solved")
    [group] = source.get_samples(1)
    finish(adapter, group, [{"solved": solved, "length": 7} for solved in (1, 1, 0, 0)])
    adapter.report_all_samples(source.args, [group], source.get_samples)
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (2, 2)}


def test_success_is_what_the_reward_calls_accuracy_and_the_score_says_whether_a_group_teaches(
    bots: Client, adapter, sourcing, dataset
):
    source = sourcing(reward_key="score")
    groups = source.get_samples(2)
    finish(adapter, groups[0], [{"score": score, "acc": False} for score in (-1, -1, -0.8, -1)])
    finish(adapter, groups[1], [{"score": 1.2, "acc": True}] * SAMPLES)
    adapter.report_all_samples(source.args, groups, source.get_samples)
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (0, 4), BEST[1]: (4, 0)}
    totals = bots.run(dataset).totals
    assert (totals.reported, totals.effective, totals.all_solved) == (2, 1, 1)


def test_another_entry_can_be_the_success(bots: Client, adapter, sourcing, dataset):
    [group] = (source := sourcing(reward_key="score", bots_success_key="passed")).get_samples(1)
    finish(adapter, group, [{"score": 3.5, "passed": passed} for passed in (1, 0, 0, 0)])
    adapter.report_all_samples(source.args, [[copies(sample, 2) for sample in group]], source.get_samples)
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (1, 3)}


def test_loading_a_checkpoint_rewinds_and_a_fresh_start_does_not(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    source.load(-1)

    def roll_out() -> None:
        groups = source.get_samples(3)
        for group in groups:
            finish(adapter, group, [1, 0, 0, 0])
        adapter.report_all_samples(source.args, groups, source.get_samples)

    roll_out()
    source.save(0)
    believed = evidence_of(bots, dataset, NAMES)
    roll_out()
    assert (bots.run(dataset).step, bots.run(dataset).epoch) == (2, 0)
    resumed = sourcing()
    resumed.load(0)
    assert (bots.run(dataset).step, bots.run(dataset).epoch) == (1, 1)
    assert evidence_of(bots, dataset, NAMES) == believed
    assert resumed.get_samples(1)[0][0].index == 3 * SAMPLES  # slime's own state came back too


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        (
            {"rollout_all_samples_process_path": None},
            f"--rollout-all-samples-process-path {ADAPTER}.report_all_samples",
        ),
        (
            {"rollout_function_path": "slime.rollout.fully_async_rollout.generate_rollout_fully_async"},
            f"--rollout-function-path {ADAPTER}.generate_rollout_fully_async",
        ),
        ({"bots_rollout_reward": "mean"}, "bots_rollout_reward is 'mean'; pass sum, last, max, or leave it out"),
    ],
)
def test_a_setup_that_would_report_no_group_is_refused_with_its_fix(sourcing, changes, fix):
    with pytest.raises(ValueError, match=re.escape(fix)):
        sourcing(**changes)


def test_asked_one_by_one_a_fully_asynchronous_rollout_waits_for_one_selection_a_batch(bots, sourcing, dataset):
    source = sourcing(**FULLY_ASYNC)
    first = [source.get_samples(1)[0] for _ in range(3)]
    assert names(first) == BEST[:3]
    assert (source.selector.client.health.selects, bots.run(dataset).leased) == (1, 3)
    assert names(source.get_samples(1)) == [BEST[3]]
    assert source.selector.client.health.selects == 2


def test_a_fully_asynchronous_rollout_reports_what_it_returns_and_leaves_the_rest_in_flight(
    bots: Client, adapter, sourcing, dataset, monkeypatch
):
    source = sourcing(**FULLY_ASYNC)

    def generate(_args, _rollout_id, data_source, _evaluation):
        groups = data_source.get_samples(3)
        for group in groups[:2]:
            finish(adapter, group, [1, 0, 0, 0])
        return groups[:2]

    slimes_own = ModuleType("slime.rollout.fully_async_rollout")
    vars(slimes_own)["generate_rollout_fully_async"] = generate
    monkeypatch.setitem(sys.modules, slimes_own.__name__, slimes_own)
    monkeypatch.setattr(sys.modules["slime.rollout"], "fully_async_rollout", slimes_own, raising=False)
    output = adapter.generate_rollout_fully_async(source.args, 0, source)
    assert names(output.samples) == BEST[:2]
    assert (bots.run(dataset).step, bots.run(dataset).leased) == (1, 1)
    assert evidence_of(bots, dataset, NAMES) == dict.fromkeys(BEST[:2], (1, 3))


def test_slimes_log_gets_the_selectors_metrics(adapter, sourcing):
    source = sourcing()
    groups = source.get_samples(3)
    for group, rewards in zip(groups, ([1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]), strict=True):
        finish(adapter, group, rewards)
    adapter.report_all_samples(source.args, groups, source.get_samples)
    metrics: dict[str, float] = {"rollout/dynamic_filter/drop": 0}
    assert adapter.log_metrics(0, source.args, [], metrics, 1.5) is False
    assert (metrics["bots/effective_task_ratio"], metrics["bots/step"]) == (1 / 3, 1)
    assert adapter.log_metrics(0, source.args, [], None, 1.5) is False


def test_prompts_that_slime_lacks_are_never_selected(bots: Client, sourcing, dataset):
    source = sourcing(rows=NAMES[:8])
    chosen = [task for _ in range(2) for task in names(source.get_samples(4))]
    assert sorted(chosen) == sorted(NAMES[:8])
    assert source.selector.client.health.replaced == 0


def test_a_missing_dataset_is_made_of_the_prompts_that_slime_kept(bots: Client, adapter, tmp_path):
    name = f"made-by-{sample_type(adapter).__module__.partition('.')[0]}"
    source = adapter.ServiceDataSource(arguments(tmp_path, rows=NAMES[:5], bots_dataset=name, bots_run="qwen"))
    assert [task.id for task in bots.tasks(name, "qwen")] == NAMES[:5]
    source.selector.client.close()


@pytest.mark.parametrize(
    ("rows", "message"),
    [(["a", "b", "a"], "'a' twice"), (["a", {}], "have no task_id"), ([], "ids is empty")],
)
def test_prompts_without_ids_of_their_own_are_refused(sourcing, rows, message):
    with pytest.raises(ValueError, match=message):
        sourcing(rows=rows)


def test_without_prompts_there_is_nothing_to_select(sourcing):
    with pytest.raises(ValueError, match="--prompt-data"):
        sourcing(prompt_data=None)


def test_the_page_configures_a_data_source(bots: Client, adapter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "dapo-math-17k.jsonl", [{"text": f"{row} + 1 = ?"} for row in range(9)])
    run_blocks("slime.md", bots.url)
    shown, _fully_async = blocks("slime.md", "yaml")
    options = yaml.safe_load(shown)  # as slime does: each becomes an attribute
    options["bots_url"] = bots.url
    source = adapter.ServiceDataSource(
        Namespace(**{**vars(arguments(tmp_path)), **options, "prompt_data": "prompts.jsonl"})
    )
    groups = source.get_samples(2)
    for group in groups:
        finish(adapter, group, [1, 0, 0, 0])
    adapter.report_all_samples(source.args, groups, source.get_samples)
    source.selector.client.close()
    assert bots.run("dapo", "qwen3-4b").totals.reported == 2
    named = [path.rpartition(".") for path in options.values() if str(path).startswith("bots_client")]
    assert [(module, callable(getattr(adapter, name))) for module, _, name in named] == [(ADAPTER, True)] * 3
    bots.delete_dataset("dapo")


@pytest.mark.parametrize("adapter", ["source"], indirect=True)
class TestTheRealRolloutLoop:
    """slime's own generate_rollout, which takes, generates, filters and calls the hook; engines answer from here."""

    @pytest.fixture
    def loop(self, adapter, monkeypatch):
        with rollouts(monkeypatch) as module:
            yield module

    def test_groups_differ_from_slimes_own_in_their_metadata_alone(self, adapter, sourcing):
        source = sourcing()
        [ours] = source.get_samples(1)
        own = adapter.RolloutDataSource(source.args)
        theirs = next(group for group in own.get_samples(len(NAMES)) if names([group]) == names([ours]))
        for place, sample in enumerate(theirs):
            sample.metadata, sample.index, sample.group_index = ours[0].metadata, place, 0
        assert ours == theirs

    def test_what_it_filters_and_cancels_is_told(self, bots: Client, adapter, sourcing, dataset, loop):
        source = sourcing(**rolling_out())
        output = loop.generate_rollout(source.args, 0, source)
        assert sorted(names(output.samples)) == sorted(BEST[1:4])
        # BEST[0] was filtered, for all its rollouts succeed; BEST[4] and BEST[5] never end, and were cancelled.
        expected = {BEST[0]: (4, 0), **dict.fromkeys(BEST[1:4], (1, 3))}
        assert evidence_of(bots, dataset, NAMES) == expected
        assert (bots.run(dataset).step, bots.run(dataset).leased) == (1, 0)

    def test_what_it_puts_back_is_taken_up_first(self, bots: Client, adapter, sourcing, dataset, loop):
        source = sourcing(partial_rollout=True, **rolling_out())
        loop.generate_rollout(source.args, 0, source)
        assert bots.run(dataset).leased == 2
        *back, new = names(source.get_samples(3))
        assert (set(back), new) == (set(BEST[4:6]), BEST[6])

    def test_its_fully_asynchronous_rollout_is_reported(
        self, bots: Client, adapter, sourcing, dataset, loop, monkeypatch
    ):
        fully_async = importlib.import_module("slime.rollout.fully_async_rollout")
        monkeypatch.setattr(fully_async, "run", loop.run)
        monkeypatch.setattr(fully_async, "get_rollout_num_engines", lambda _args: 1)
        how = {
            "custom_generate_function_path": f"{generate_at_once.__module__}.generate_at_once",
            "sglang_server_concurrency": 4,
        }
        source = sourcing(**FULLY_ASYNC, **how)
        outputs = [adapter.generate_rollout_fully_async(source.args, number, source) for number in range(2)]
        fully_async._stop_global_worker()
        returned = [task for output in outputs for task in names(output.samples)]
        assert evidence_of(bots, dataset, NAMES).keys() == set(returned)
        run = bots.run(dataset)
        assert (run.step, run.totals.reported, run.totals.effective) == (2, 6, 6)
        assert run.leased >= len(source.open) > 0, "what is still under way stays in flight"


def rolling_out() -> dict[str, object]:
    """Return the arguments with which the loop takes too many groups, generates, filters and reports."""
    return {
        "over_sampling_batch_size": 6,
        "custom_generate_function_path": f"{__name__}.generate",
        "dynamic_sampling_filter_path": f"{__name__}.mixed",
    }


def mixed(_args, group, **_how) -> bool:
    """Keep groups of which the trainer learns."""
    return len({sample.reward for sample in group}) > 1


async def generate(args, sample, _sampling):
    """Answer as engines would: the task BEST[0] is solved always, three others once, the rest when all is aborted."""
    place = BEST.index(sample.metadata["task_id"])
    state = importlib.import_module("slime.rollout.sglang_rollout").GenerateState(args)
    while place > 3 and not state.aborted:  # noqa: ASYNC110 - slime tells it by a flag
        await asyncio.sleep(0.001)
    sample.reward = float(place == 0 or sample.index % SAMPLES == 0)
    sample.status = type(sample).Status.ABORTED if place > 3 else type(sample).Status.COMPLETED
    return sample

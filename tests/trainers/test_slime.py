"""The adapter for slime, against a service.

It is no package that pip could fetch. SLIME_SOURCE names the folder of a checkout: there the tests run its own files.
What these import and can't have here (inference engines, tracing, reward models) is replaced, module by module, and
only where it does not import. Without a checkout the least that a data source must do stands for it.
"""

import asyncio
import copy
import importlib
import json
import os
import re
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml

from bots_client import Client
from tests.trainers.recipes import FORGETTING, PAGES, blocks, create_pool, evidence_of, write_lines
from tests.trainers.standins import adapter_on

SOURCE = os.environ.get("SLIME_SOURCE")
ADAPTER = "bots_client.integrations.slime"
NAMES = [f"math-{row}" for row in range(24)]
SAMPLES = 4
# Arguments of slime's that are not used here.
UNSET = """apply_chat_template_kwargs buffer_filter_path custom_generate_function_path dump_details label_key tool_key
    dynamic_sampling_filter_path multimodal_keys reward_key rollout_max_prompt_len
    rollout_sample_filter_path rollout_stop rollout_stop_token_ids sglang_dp_size"""
OFF = """apply_chat_template group_rm mask_offpolicy_in_partial_rollout partial_rollout rollout_shuffle
    rollout_skip_special_tokens"""


@dataclass
class Sample:
    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"
        FAILED = "failed"

    prompt: str = ""
    group_index: int | None = None
    index: int | None = None
    response_length: int = 0
    reward: Any = None
    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_reward_value(self, args: Namespace) -> float:
        return self.reward[args.reward_key] if args.reward_key else self.reward


class Rows:
    """A data source without a buffer: knows its prompts and counts what it gave."""

    def __init__(self, args: Namespace) -> None:
        self.args = args
        self.sample_group_index = self.sample_index = 0
        self.dataset = None
        if args.rollout_global_dataset and args.prompt_data is not None:
            rows = map(json.loads, Path(args.prompt_data).read_text().splitlines())
            self.dataset = Namespace(samples=[Sample(row["text"], metadata=row["metadata"]) for row in rows])

    def save(self, rollout_id: int) -> None:
        self._path(self.args.save, rollout_id).write_text(json.dumps([self.sample_group_index, self.sample_index]))

    def load(self, rollout_id: int) -> None:
        if self.args.load is not None and (path := self._path(self.args.load, rollout_id)).exists():
            self.sample_group_index, self.sample_index = json.loads(path.read_text())

    @staticmethod
    def _path(folder: str, rollout_id: int) -> Path:
        Path(folder).mkdir(exist_ok=True)
        return Path(folder) / f"{rollout_id}.json"


class RowsWithBuffer(Rows):
    """Gives first what was put back, and the rest from the next class."""

    def __init__(self, args: Namespace) -> None:
        super().__init__(args)
        self.buffer: list[list[Sample]] = []

    def get_samples(self, count: int) -> list[list[Sample]]:
        first, self.buffer = self.buffer[:count], self.buffer[count:]
        rest = count - len(first)
        return first + super().get_samples(num_samples=rest) if rest else first  # type: ignore[misc]

    def add_samples(self, groups: list[list[Sample]]) -> None:
        self.buffer += groups


@dataclass
class Output:
    samples: list[list[Sample]]
    metrics: dict[str, Any] | None = None


def traced(*_what: object, **_how: object):
    return lambda function: function


async def idle(*_urls: object) -> dict[str, list[Any]]:
    return {"workers": []}


PROTOCOL: dict[str, dict[str, object]] = {
    "slime": {},
    "slime.rollout": {},
    "slime.rollout.base_types": {"RolloutFnTrainOutput": Output},
    "slime.rollout.data_source": {"RolloutDataSource": Rows, "RolloutDataSourceWithBuffer": RowsWithBuffer},
    "slime.utils": {},
    "slime.utils.types": {"Sample": Sample},
}
STAND_INS: dict[str, dict[str, object]] = {
    "slime.utils.http_utils": {
        "is_port_available": None,
        "get": idle,
        "post": None,
        "get_rollout_num_engines": lambda _args: 1,
    },
    "slime.utils.async_utils": {"run": None},
    "slime.utils.eval_config": {"EvalDatasetConfig": None},
    "slime.observability": {},
    "slime.observability.trace_utils": {
        "build_sglang_meta_trace_attrs": None,
        "trace_function": traced,
        "trace_span": lambda *_what, **_how: nullcontext(),
    },
    "slime.backends": {},
    "slime.backends.sglang_utils": {},
    "slime.backends.sglang_utils.server_control": {"abort_servers_until_idle": idle},
    "slime.rollout.rm_hub": {"async_rm": None, "batched_async_rm": None},
}


@contextmanager
def rollouts(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the real module of slime's rollout loop, on an event loop of its own, with no engines behind it."""
    module: Any = importlib.import_module("slime.rollout.sglang_rollout")
    loop = asyncio.new_event_loop()
    patch.setattr(module, "run", loop.run_until_complete)
    patch.setattr(module, "get", idle)
    patch.setattr(module, "abort_servers_until_idle", idle)
    patch.setattr(module, "get_rollout_num_engines", lambda _args: 1)
    patch.setattr(module.SingletonMeta, "_instances", {})
    yield module
    loop.close()


def sample_type() -> Any:
    return importlib.import_module("slime.utils.types").Sample


def copies(sample: Any, count: int, **changes: Any) -> list[Any]:
    """Return copies of a sample with some fields changed, as a generate function that fans out makes them."""
    made = [copy.copy(sample) for _ in range(count)]
    for each in made:
        vars(each).update(changes)
    return made


def arguments(folder, *, rows=None, **changes) -> Namespace:
    names = NAMES if rows is None else rows
    write_lines(folder / "rows.jsonl", [{"text": "?", "metadata": name and {"task_id": name}} for name in names])
    save_tokenizer(folder / "model")
    settings = {
        **dict.fromkeys(UNSET.split()), **dict.fromkeys(OFF.split(), False), "hf_checkpoint": str(folder / "model"),
        "input_key": "text", "load": str(folder / "checkpoints"), "metadata_key": "metadata",
        "n_samples_per_prompt": SAMPLES, "over_sampling_batch_size": 3, "prompt_data": str(folder / "rows.jsonl"),
        "rollout_all_samples_process_path": f"{ADAPTER}.report_all_samples", "rollout_batch_size": 3,
        "rollout_function_path": "slime.rollout.sglang_rollout.generate_rollout", "rollout_global_dataset": True,
        "rollout_max_response_len": 8, "rollout_seed": 42, "rollout_temperature": 1.0, "rollout_top_k": -1,
        "rollout_top_p": 1.0, "save": str(folder / "checkpoints"), "sglang_router_ip": "127.0.0.1",
        "sglang_router_port": 1, "sglang_server_concurrency": 64,
    }  # fmt: skip
    return Namespace(**{**settings, **changes})


def save_tokenizer(folder) -> None:
    if SOURCE is not None and not folder.exists():
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(folder)


def finish(group, rewards, statuses=()) -> None:
    """End each rollout of a group with a reward and 10 tokens; COMPLETED unless said otherwise."""
    status = sample_type().Status
    for place, (sample, reward) in enumerate(zip(group, rewards, strict=True)):
        sample.reward, sample.response_length = reward, 10
        sample.status = status(statuses[place]) if statuses else status.COMPLETED


def names(groups) -> list[str]:
    return [group[0].metadata["task_id"] for group in groups]


async def generate_at_once(_args, sample, _sampling):
    """Answer with one success in four."""
    sample.reward, sample.status = float(sample.index % SAMPLES == 0), type(sample).Status.COMPLETED
    return sample


BEST = ["math-20", "math-3", "math-11", "math-7", "math-15", "math-0", "math-9", "math-22"]
FULLY_ASYNC = {
    "rollout_function_path": f"{ADAPTER}.generate_rollout_fully_async",
    "rollout_all_samples_process_path": None,
}


@pytest.fixture(scope="module", params=["protocol", "source"])
def adapter(request):
    if request.param == "source" and SOURCE is None:
        pytest.skip("SLIME_SOURCE names no checkout of slime: its real files are not run")
    path = SOURCE if request.param == "source" else None
    with adapter_on("slime", path=path, protocol=PROTOCOL, stand_ins=STAND_INS) as module:
        yield module


@pytest.fixture
def dataset(bots: Client, adapter, request) -> str:
    name = f"{request.node.originalname}-{'protocol' if sample_type() is Sample else 'real'}"
    create_pool(bots, name, NAMES, first=BEST)
    return name


@pytest.fixture
def sourcing(adapter, dataset: str, tmp_path):
    sources = []

    def source(**changes):
        sources.append(adapter.ServiceDataSource(arguments(tmp_path, bots_dataset=dataset, **changes)))
        return sources[-1]

    yield source
    for each in sources:
        each.selector.client.close()


def test_groups_are_selected_by_the_service_and_reported_once(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    groups = source.get_samples(3)
    assert names(groups) == BEST[:3]
    assert [[sample.index for sample in group] for group in groups] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [{sample.group_index for sample in group} for group in groups] == [{0}, {1}, {2}]
    assert len({sample.metadata["selection_id"] for group in groups for sample in group}) == 1
    assert bots.run(dataset).leased == 3
    for group, rewards in zip(groups, ([1, 0, 0, 0], [1, 1, 1, 1], [0.5, 0, 0, 0]), strict=True):
        finish(group, rewards)
    adapter.report_all_samples(source.args, groups, source.get_samples)  # they hand over the method
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (1, 3), BEST[1]: (4, 0), BEST[2]: (0.5, 3.5)}
    assert (bots.run(dataset).step, bots.run(dataset).leased) == (1, 0)


def test_loading_a_checkpoint_rewinds_and_a_fresh_start_does_not(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    source.load(-1)

    def roll_out() -> None:
        groups = source.get_samples(3)
        for group in groups:
            finish(group, [1, 0, 0, 0])
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
    assert resumed.get_samples(1)[0][0].index == 3 * SAMPLES  # the trainer's own state came back too


def test_a_setup_that_would_report_no_group_is_refused_with_its_fix(sourcing):
    own = "slime.rollout.fully_async_rollout.generate_rollout_fully_async"
    for changes, says in (
        ({"rollout_function_path": own}, f"--rollout-function-path {ADAPTER}.generate_rollout_fully_async"),
        ({"rollout_all_samples_process_path": None}, f"pass --rollout-all-samples-process-path {ADAPTER}.report_all"),
        ({"bots_rollout_reward": "mean"}, "bots_rollout_reward is 'mean'"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            sourcing(**changes)


def test_aborted_and_failed_rollouts_are_evidence_of_nothing_and_the_log_counts_them(
    bots: Client, adapter, sourcing, dataset
):
    source = sourcing()
    groups = source.get_samples(3)
    finish(groups[0], [1, 1, None, 0], ["completed", "truncated", "aborted", "failed"])
    finish(groups[1], [None] * SAMPLES, ["aborted"] * SAMPLES)
    finish(groups[2], [1, 0, 0, 0])
    adapter.report_all_samples(source.args, groups, source)
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (2, 0), BEST[2]: (1, 3)}
    assert (bots.run(dataset).leased, bots.run(dataset).totals.tokens) == (0, 3 * SAMPLES * 10)
    metrics: dict[str, float] = {}
    adapter.log_metrics(0, source.args, [], metrics, 1.5)
    assert metrics["bots/left_out_rollouts"] == 2 + SAMPLES


def test_with_partial_rollouts_aborted_groups_come_back_first_with_their_selection(
    bots: Client, adapter, sourcing, dataset
):
    source = sourcing(partial_rollout=True)
    groups = source.get_samples(3)
    for group in groups[:2]:
        finish(group, [1, 0, 0, 0])
    adapter.report_all_samples(source.args, groups[:2], source.get_samples)
    assert bots.run(dataset).leased == 1
    source.add_samples(groups[2:])
    again = source.get_samples(3)
    assert names(again) == [BEST[2], BEST[3], BEST[4]]
    selections = [group[0].metadata["selection_id"] for group in again]
    assert selections[0] == groups[2][0].metadata["selection_id"] != selections[1] == selections[2]
    for group in again:
        finish(group, [0, 0, 0, 1])
    adapter.report_all_samples(source.args, again, source.get_samples)
    run = bots.run(dataset)
    assert (run.step, run.leased, run.totals.late) == (2, 0, 1)
    left = 1 - FORGETTING  # it was selected at step 0, and a step closed after it
    expected = {BEST[2]: pytest.approx((left, 3 * left)), BEST[3]: (1, 3), BEST[4]: (1, 3)}
    assert evidence_of(bots, dataset, BEST[2:]) == expected


def split_group(group, *rewards):
    """Return a group whose rollouts are split, each into a sample for each of its rewards."""
    split = []
    for sample, of_samples in zip(group, rewards, strict=True):
        parts = copies(sample, len(of_samples), rollout_id=sample.index)
        finish(parts, of_samples)
        split.append(parts)
    return split


@pytest.mark.parametrize("is_flat", [False, True], ids=["lists", "rollout_id alone"])
def test_a_rollout_of_several_samples_counts_once(bots: Client, adapter, sourcing, dataset, is_flat):
    run = f"flat-{is_flat}"
    source = sourcing(bots_run=run, bots_rollout_reward="sum")
    group = split_group(source.get_samples(1)[0], (0.5, 0.5), (0.25, 0.5, 0.25), (0, 0), (1,))
    samples = [sample for rollout in group for sample in rollout]
    adapter.report_all_samples(source.args, [samples if is_flat else group], source.get_samples)
    totals = bots.run(dataset, run).totals
    assert (totals.rollouts, totals.successes) == (SAMPLES, 3)
    assert bots.run(dataset, run).leased == 0


def test_success_is_the_accuracy_or_the_named_entry_and_the_score_says_whether_a_group_teaches(
    bots: Client, adapter, sourcing, dataset
):
    source = sourcing(reward_key="score")
    groups = source.get_samples(2)
    finish(groups[0], [{"score": score, "acc": False} for score in (-1, -1, -0.8, -1)])
    finish(groups[1], [{"score": 1.2, "acc": True}] * SAMPLES)
    adapter.report_all_samples(source.args, groups, source.get_samples)
    totals = bots.run(dataset).totals
    assert (totals.reported, totals.effective, totals.all_solved) == (2, 1, 1)
    [group] = (source := sourcing(reward_key="score", bots_success_key="passed")).get_samples(1)
    finish(group, [{"score": 3.5, "passed": passed} for passed in (1, 0, 0, 0)])
    adapter.report_all_samples(source.args, [[copies(sample, 2) for sample in group]], source.get_samples)
    assert evidence_of(bots, dataset, [names([group])[0]]) == {names([group])[0]: (1, 3)}


def test_the_page_configures_a_data_source(bots: Client, adapter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [told] = re.findall(r"`({.text.: .*})`", (PAGES / "slime.md").read_text("utf-8"))
    write_lines(tmp_path / "prompts.jsonl", [json.loads(told.replace("dapo-0", f"dapo-{row}")) for row in range(9)])
    shown, _fully_async = blocks("slime.md", "yaml")
    options = yaml.safe_load(shown)  # as slime does: each becomes an attribute
    options["bots_url"] = bots.url
    source = adapter.ServiceDataSource(
        Namespace(**{**vars(arguments(tmp_path)), **options, "prompt_data": "prompts.jsonl"})
    )
    groups = source.get_samples(2)
    for group in groups:
        finish(group, [1, 0, 0, 0])
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

    def test_what_it_filters_and_cancels_is_told(self, bots: Client, adapter, sourcing, dataset, loop):
        source = sourcing(**rolling_out())
        output = loop.generate_rollout(source.args, 0, source)
        assert sorted(names(output.samples)) == sorted(BEST[1:4])
        # BEST[0] was filtered, for all its rollouts succeed; BEST[4] and BEST[5] never end, and were cancelled.
        expected = {BEST[0]: (4, 0), **dict.fromkeys(BEST[1:4], (1, 3))}
        assert evidence_of(bots, dataset, NAMES) == expected
        assert (bots.run(dataset).step, bots.run(dataset).leased) == (1, 0)

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
    return {
        "over_sampling_batch_size": 6,
        "custom_generate_function_path": f"{__name__}.generate",
        "dynamic_sampling_filter_path": f"{__name__}.mixed",
    }


def mixed(_args, group, **_how) -> bool:
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

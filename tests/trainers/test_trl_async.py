"""TRL's asynchronous GRPO, as far as it goes without vLLM: its own loops that choose, group and score.

The answers come from here instead of a vLLM server; no model learns from them.
"""

import asyncio
import multiprocessing
import pickle
import warnings

import pytest
from accelerate import PartialState

from bots_client import Client, ResilientClient, Selector
from bots_client.integrations.rewards import flush, reports_groups
from bots_client.integrations.torch import SelectedTasks
from tests.trainers import tiny

with warnings.catch_warnings(action="ignore"):  # that it is experimental
    from trl.experimental.async_grpo import async_rollout_worker

GENERATIONS = 4
GROUPS = 6


class Loop(async_rollout_worker._AsyncRolloutLoop):
    """The worker's loops, with answers made up here; ends once so many groups are scored."""

    async def _generate_one(self, prompt, tool_dict, tools, group_id=0):
        return prompt[0] if group_id % 2 else "?", [2], [], 0, 0, None

    async def _score_group(self, group):
        samples = await super()._score_group(group)
        self._scored = getattr(self, "_scored", 0) + 1
        if self._scored == GROUPS:
            self._stop_event.set()
        return samples

    async def _run_loops(self, stop_event):
        await asyncio.gather(self._generate_loop(stop_event), self._score_loop(stop_event))


@pytest.fixture
def selector(url, tmp_path):
    with Client(url) as direct:
        direct.create_dataset("async", tiny.TASKS)
    with ResilientClient(url, spool=tmp_path) as client:
        yield Selector(client, "async", ids=tiny.IDS)


def test_the_rollout_loop_chooses_and_reports_its_groups(selector):
    tasks = SelectedTasks(selector, tiny.ROWS, count=2)
    carried = pickle.loads(pickle.dumps(tasks))  # noqa: S301 - as the trainer hands it to its worker process
    PartialState(cpu=True)  # the trainer's, for its log
    spawn = multiprocessing.get_context("spawn")
    tokenizer = tiny.tokenizer()
    tokenizer.response_template = {}  # for tools' answers, of which there are none
    loop = Loop(
        model_name="tiny",
        dataset=carried,
        reward_funcs=[reports_groups(selector, tasks_per_step=2)(tiny.begins_well)],
        processing_class=tokenizer,
        eos_token_ids=[1],
        rollout_buffer=spawn.Queue(),
        model_version_value=spawn.Value("i", 0),
        heartbeat_value=spawn.Value("d", 0.0),
        failed_event=spawn.Event(),
        exception_info_queue=spawn.Queue(),
        metrics_queue=spawn.Queue(),
        num_generations=GENERATIONS,
        max_inflight_tasks=8,
    )
    loop.run()
    carried._selector.client.close()
    assert flush()
    run = selector.client.direct.run("async")
    assert run.step == GROUPS // 2
    assert (run.totals.reported, run.totals.rollouts) == (GROUPS, GROUPS * GENERATIONS)
    assert run.totals.successes == GROUPS // 2 * GENERATIONS, "every other group is right"

"""The recipes for trainers that are not on PyPI, against their sources, where a folder with these is given.

NEMO_RL_SOURCE and RLLM_SOURCE name checkouts. Without one, what needs it is skipped, and says so.
"""

import asyncio
import collections
import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.trainers.recipes import BATCH, POOL, ROLLOUTS, recipe, reward_of, task_ids


def source(variable: str) -> Path:
    """Return the folder of a checkout; without one the test is skipped."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"set {variable} to a checkout: this trainer is not on PyPI, so its hook was not run")
    return Path(folder)


class Prompts(torch.utils.data.Dataset[dict[str, Any]]):
    """Stands for NeMo-RL's processed dataset."""

    def __len__(self) -> int:
        return POOL

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {"message_log": [f"solve t{place}"], "idx": place, "extra_env_info": {"task_id": f"t{place}"}}


def collate(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Stands for NeMo-RL's collate function: a batch is columns."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def nemo_batches(module: Any, dataloaders: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Iterate as NeMo-RL does, with its own wrapper if its source is there."""
    if not os.environ.get("NEMO_RL_SOURCE"):
        return iter(lambda: module.select(dict.fromkeys(dataloaders), dataloaders)[0], None)
    wrapper = importlib.import_module("nemo_rl.data.dataloader").MultipleDataloaderWrapper
    monkeypatch.setattr(sys, "path", list(sys.path))  # it adds its own folder
    return iter(wrapper(BATCH, {"custom_dataloader": "bots_nemo.select"}, dataloaders))


def test_nemo_rl_trains_on_what_is_selected_and_its_environment_reports_it(bots, tmp_path, monkeypatch, caplog):
    loader = StatefulDataLoader(Prompts(), batch_size=BATCH, collate_fn=collate)
    checkout = os.environ.get("NEMO_RL_SOURCE")
    with recipe(
        "nemo-rl.md", bots, tmp_path, trainer=Path(checkout) if checkout else None, without="wandb", name="bots_nemo"
    ) as module:
        batches = nemo_batches(module, {"math": loader}, monkeypatch)
        solved = 0.0
        for shape in (as_tensor, by_name):
            environment = type("Environment", (module.ReportsRewards, Graded), {"shaped": staticmethod(shape)})()
            for _ in range(3):
                batch = next(batches)
                assert [f"t{place}" for place in batch["idx"]] == [row["task_id"] for row in batch["extra_env_info"]]
                rows = [row for row in batch["extra_env_info"] for _ in range(ROLLOUTS)]
                environment.step([[]] * len(rows), rows)
                solved += sum(reward_of(row["task_id"]) for row in rows)
            environment.step([[]], [{"task_id": "t1"}])  # validation
        run = bots.run("nemo-rl", "nemo")
        assert (run.step, run.totals.rollouts, run.totals.successes) == (2 * 3, 2 * 3 * BATCH * ROLLOUTS, solved)

        odd = type("Odd", (module.ReportsRewards, Graded), {"shaped": staticmethod(lambda _: "none at all")})()
        assert odd.step([[]], [{"task_id": "t1", "selection_id": ""}]).rewards == "none at all"
        assert "rewards of the environment are not reported" in caplog.text
        module.prepared(loader.dataset)[1].client.close()
        odd.client.close()


def as_tensor(rewards: torch.Tensor) -> torch.Tensor:
    """Return the rewards as environments with one reward do."""
    return rewards


def by_name(rewards: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the rewards as environments with several do, for GDPO."""
    return {"correct": rewards.bfloat16() / 2, "format": rewards / 2}


class Graded:
    """Stands for an environment; what it returns is NeMo-RL's own record if its source is there."""

    shaped: Any

    def step(self, message_log_batch: list[Any], metadata: list[dict[str, Any]], *_: object) -> Any:
        rewards = torch.tensor([reward_of(row["task_id"]) for row in metadata])
        given = {"observations": [{}] * len(rewards), "metadata": metadata, "rewards": self.shaped(rewards)}
        record = returned()
        return record(**{name: given.get(name) for name in record._fields})


def returned() -> Any:
    """Return the class of what environments return."""
    if not os.environ.get("NEMO_RL_SOURCE"):
        return collections.namedtuple("Returned", ["observations", "metadata", "rewards"])
    return importlib.import_module("nemo_rl.environments.interfaces").EnvironmentReturn


def test_nemo_rl_itself_was_there():
    source("NEMO_RL_SOURCE")


class Backend:
    """Stands for a backend: an episode for each rollout."""

    async def generate_episodes(self, batch: list[dict[str, Any]], *_: object) -> list[Any]:
        return [
            SimpleNamespace(task=task, is_correct=bool(reward_of(task["task_id"])))
            for task in batch
            for _ in range(ROLLOUTS)
        ]


def test_rllm_trains_on_what_is_selected_and_a_checkpoint_takes_the_run_along(bots, tmp_path):
    with recipe("rllm.md", bots, tmp_path, trainer=source("RLLM_SOURCE")) as module:
        tasks = [{"task_id": name} for name in task_ids()]
        selector = module.Selector(None, "rllm", ids=task_ids())
        loader = module.SelectedTaskDataLoader(tasks, BATCH, selector)
        backend = type("BotsBackend", (module.ReportsEpisodes, Backend), {"selector": selector})()
        states = []
        for batch in loader:
            asyncio.run(backend.generate_episodes(batch, None))
            asyncio.run(backend.generate_episodes(batch, None, is_validation=True))
            states.append(loader.state_dict())
        run = bots.run("rllm")
        assert (run.step, run.totals.rollouts, loader.epoch) == (POOL // BATCH, POOL * ROLLOUTS, 1)
        loader.load_state_dict(states[0])
        assert len(list(loader)) == POOL // BATCH - 1
        assert (bots.run("rllm").step, bots.run("rllm").epoch) == (1, 1)
        selector.client.close()

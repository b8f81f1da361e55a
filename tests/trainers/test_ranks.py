"""TRL on two ranks: torchrun starts this file as a script of each rank, with the service and a folder."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch.distributed
from datasets import Dataset

from bots_client import Client, RequestError, ResilientClient, Selector
from bots_client.integrations.rewards import flush, reports_groups
from bots_client.integrations.torch import from_rank_zero, to_rank_zero
from bots_client.integrations.trl import SelectedGRPOTrainer
from tests.trainers import tiny
from tests.trainers.tiny_trl import GENERATIONS, config

ROOT = Path(__file__).parents[2]
GROUPS = 3  # of each step
STEPS = 3


def main(url: str, folder: Path) -> None:
    """Train on two ranks, six rollouts each, so that the middle one of three groups lies on both."""
    rank = int(os.environ["RANK"])
    torch.distributed.init_process_group("gloo")
    heard = [from_rank_zero(lambda: f"from rank {rank}"), failure_heard(rank)]
    client = ResilientClient(url, spool=folder / "spool")
    heard.append(mistake_heard(client))
    scored: list[str] = []

    def begins_well(completions: list[str], wanted: list[str], task_id: list[str], **_columns: object) -> list[float]:
        scored.extend(task_id)
        return tiny.begins_well(completions, wanted)

    trainer = SelectedGRPOTrainer(
        tiny.model(),
        begins_well,
        config(folder / "out", per_device_train_batch_size=6, max_steps=STEPS, save_strategy="steps", save_steps=1),
        Dataset.from_list(tiny.ROWS),
        processing_class=tiny.tokenizer(),
        selector=Selector(client, "ranks", ids=tiny.IDS, share=from_rank_zero),
    )
    trainer.train()
    first = {"heard": heard, "scored": list(scored), "asked": client.health.selects, "sent": client.health.reports}
    report_half_a_group(Selector(client, "ranks", "halves", ids=tiny.IDS, rank=rank), rank)
    scored.clear()
    trainer.train(resume_from_checkpoint=str(folder / "out" / "checkpoint-1"))
    (folder / f"rank-{rank}.json").write_text(json.dumps(first | {"scored_again": scored}))
    client.close()
    torch.distributed.barrier()
    # Not by returning: torch 2.13 may then hang for ever. The last reference to gloo's group joins its thread while
    # it holds the GIL, and the thread needs the GIL to release a tensor.
    os._exit(0)


def report_half_a_group(selector: Selector, rank: int) -> None:
    """Score rollouts of two tasks: rank 0 solves its halves of both groups, and rank 1 fails; then lack a column."""

    @reports_groups(selector, gather=to_rank_zero)
    def solved(completions: list[str], **_columns: object) -> list[float]:
        return [float(rank == 0)] * len(completions)

    tasks = [tiny.IDS[0], tiny.IDS[1]] * (GENERATIONS // 2)
    solved(["x"] * GENERATIONS, task_id=tasks, selection_id=[""] * GENERATIONS)
    flush()
    solved(["x"], selection_id=[""], **({"task_id": [tiny.IDS[2]]} if rank else {}))
    flush()


def failure_heard(rank: int) -> str:
    def ask() -> str:
        raise KeyError(f"no answer for rank {rank}")

    try:
        return from_rank_zero(ask)
    except (KeyError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def mistake_heard(client: ResilientClient) -> str:
    try:
        Selector(client, "no-such-dataset", ids=tiny.IDS, share=from_rank_zero).next(2)
    except RequestError as error:
        return type(error).__name__
    return "nothing"


@pytest.fixture(scope="module")
def job(url, tmp_path_factory):
    """A job of two processes that has trained, resumed and ended: what each of them saw, and the run."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    paths = os.pathsep.join(map(str, (ROOT / "service", ROOT / "client", ROOT)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    with Client(url) as client:
        client.create_dataset("ranks", tiny.TASKS)
        client.create_run("ranks", "halves")
        script = [__file__, url, str(folder)]
        ended = subprocess.run(
            [*command, *script], env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert ended.returncode == 0, ended.stderr[-4000:]
        seen = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]
        yield seen, client.run("ranks"), list(client.journal("ranks")), list(client.history("ranks", "halves"))


def test_all_ranks_hear_what_rank_zero_was_answered_and_its_failures(job):
    assert [seen["heard"][0] for seen in job[0]] == ["from rank 0"] * 2
    assert [seen["heard"][2] for seen in job[0]] == ["NotFoundError"] * 2
    own, told = (seen["heard"][1] for seen in job[0])
    assert own == "KeyError: 'no answer for rank 0'"
    assert told == "RuntimeError: rank 0 failed: KeyError: 'no answer for rank 0'"


@pytest.mark.parametrize(("part", "steps"), [("scored", STEPS), ("scored_again", STEPS - 1)])
def test_ranks_train_on_the_parts_of_the_same_groups(job, part, steps):
    first, second = (seen[part] for seen in job[0])
    for step in range(steps):
        mine, others = first[step * 6 : step * 6 + 6], second[step * 6 : step * 6 + 6]
        assert mine[4:] == others[:2], "the middle group lies on both"
        assert list(Counter(mine + others).values()) == [GENERATIONS] * GROUPS


def test_only_rank_zero_asks_and_reports(job):
    first, second = job[0]
    assert (first["asked"], first["sent"]) == (1 + STEPS + 1, STEPS)
    assert (second["asked"], second["sent"]) == (0, 0)


def test_each_group_is_reported_once_and_the_run_rewound_once(job):
    run, journal = job[1], job[2]
    assert (run.step, run.epoch) == (STEPS, 1)
    assert (run.totals.reported, run.totals.rollouts) == (STEPS * GROUPS, STEPS * GROUPS * GENERATIONS)
    assert Counter(entry.kind for entry in journal) == {"report": STEPS + STEPS - 1, "rewind": 1}


def test_groups_that_lie_on_two_ranks_are_reported_whole_and_once(job):
    whole, of_one_rank = job[3]
    assert (whole.reported, whole.effective, whole.rollouts) == (2, 2, 2 * GENERATIONS)
    assert of_one_rank.rollouts == 1, "a rank that cannot tell its rollouts holds up nobody"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

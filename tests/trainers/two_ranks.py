"""What each rank of a job does in tests/trainers/test_ranks.py; torchrun starts it with the service and a folder."""

import json
import os
import sys
from pathlib import Path

import torch.distributed
from datasets import Dataset

from bots_client import RequestError, ResilientClient, Selector
from bots_client.integrations.rewards import flush, reports_groups
from bots_client.integrations.torch import from_rank_zero, to_rank_zero
from bots_client.integrations.trl import SelectedGRPOTrainer
from tests.trainers import tiny
from tests.trainers.tiny_trl import GENERATIONS, config

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


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

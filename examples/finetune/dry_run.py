"""A kill in the middle: part of a dry run."""

import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from bots_client import Client
from examples.finetune.lockstep import CHECKPOINT, PATIENCE_S, train
from examples.finetune.plan import Job, Plan


def killed(plan: Plan, jobs: Sequence[Job], url: str, folder: Path) -> int:
    """Begin runs in a process of their own, and kill it after its second checkpoint; return how many there were."""
    context = multiprocessing.get_context("spawn")  # a fork would carry torch's threads along
    process = context.Process(target=begin, args=(plan, jobs, url, folder))
    process.start()
    seen: set[int] = set()
    while process.is_alive() and len(seen) < 2:  # the one to go on from is not the first
        if (folder / CHECKPOINT).exists():
            seen.add((folder / CHECKPOINT).stat().st_mtime_ns)
        time.sleep(0.01)
    process.kill()
    process.join()
    return len(seen)


def begin(plan: Plan, jobs: Sequence[Job], url: str, folder: Path) -> None:
    """Train with a checkpoint after each step, in a process of its own."""
    torch.set_num_threads(1)
    with Client(url, deadline_s=PATIENCE_S) as client:
        always = {"budget_s": float("inf"), "checkpoint_every_s": 0.0}
        train(plan, jobs, client=client, folder=folder, on_step=lambda _trainer: None, **always)

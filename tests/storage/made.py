"""Small datasets, runs and reports for the tests of stores."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from bots_service.core.arrays import frozen
from bots_service.core.coverage import Coverage
from bots_service.core.entries import Report
from bots_service.core.evidence import NO_COSTS, Costs, Evidence
from bots_service.core.outlook import Outlook
from bots_service.core.receipt import BINS, Calibration, Receipt, Tally
from bots_service.core.run_settings import RunSettings
from bots_service.ports.catalog import Answers, Datasets, Health, Runs
from bots_service.records import (
    Courses,
    DatasetFacts,
    DatasetRow,
    IdempotencyKey,
    Journal,
    NewEntry,
    Outlooks,
    RunRow,
    Snapshots,
    TaskBlock,
)
from bots_service.storage.sql.answers import SqlAnswers
from bots_service.storage.sql.courses import SqlCourses
from bots_service.storage.sql.database import Database
from bots_service.storage.sql.datasets import SqlDatasets
from bots_service.storage.sql.health import SqlHealth
from bots_service.storage.sql.journal import SqlJournal
from bots_service.storage.sql.outlooks import SqlOutlooks
from bots_service.storage.sql.runs import SqlRuns
from bots_service.storage.sql.snapshots import SqlSnapshots

names = (f"made-{number}" for number in itertools.count())


@dataclass(frozen=True)
class Stores:
    """Every port over one database."""

    datasets: Datasets
    runs: Runs
    journal: Journal
    snapshots: Snapshots
    courses: Courses
    outlooks: Outlooks
    answers: Answers
    health: Health
    database: Any


def stores_over(database: Database) -> Stores:
    return Stores(
        datasets=SqlDatasets(database),
        runs=SqlRuns(database),
        journal=SqlJournal(database),
        snapshots=SqlSnapshots(database),
        courses=SqlCourses(database),
        outlooks=SqlOutlooks(database),
        answers=SqlAnswers(database),
        health=SqlHealth(database),
        database=database,
    )


def block(start: int, count: int) -> TaskBlock:
    tasks = range(start, start + count)
    references = np.array([[task % 17 / 16, np.nan if task % 5 == 0 else 0.75] for task in tasks])
    tags: list[tuple[str, ...]] = [("math",) if task % 2 else ("code", "math") for task in tasks]
    return TaskBlock([f"task-{task}" for task in tasks], references.reshape(count, 2), tags)


def facts(size: int) -> DatasetFacts:
    return DatasetFacts("about ü", ("weak", "strong"), (0, 1), ("math",), size, 3, {"math": size}, f"digest-{size}")


async def dataset(stores: Stores, *, size: int = 10) -> DatasetRow:
    stage = await stores.datasets.stage()
    await stores.datasets.add_block(stage, block(0, size))
    return (await stores.datasets.create(next(names), stage, facts(size))).row


async def run(stores: Stores, of: DatasetRow | None = None) -> RunRow:
    row = of or await dataset(stores)
    return (await stores.runs.put(row.id, next(names), RunSettings()))[0]


def report(seed: int = 0, tasks: int = 4) -> Report:
    rng = np.random.default_rng(seed)
    successes, failures = (frozen(counts) for counts in rng.random((2, tasks)) * 16)
    some = frozen(rng.integers(0, 100, tasks).astype(np.int32))
    costs = Costs(*(rng.random(2) * 1000).tolist()) if seed % 2 else NO_COSTS
    evidence = Evidence(some, successes, failures, frozen(rng.random(tasks) < 0.5))
    return Report(evidence, seed % 7, None, costs=costs)


def draft(key: str | None = None, *, fingerprint: str = "same", seed: int = 0, epoch: int | None = None) -> NewEntry:
    return NewEntry(report(seed), 3, epoch, None if key is None else IdempotencyKey(key, fingerprint))


def receipt(seq: int, step: int, *, closed: bool = True, epoch: int = 0) -> Receipt:
    tally = Tally(seq + 2, seq, 1, 1, 16.0 * (seq + 2), 2.5 * seq, 0.1 + seq)
    capability = None if seq == 1 else 1 / seq
    brier = None if seq == 2 else 0.2 / seq
    shown = None if brier is None else Calibration((16.0,) * BINS, (0.1 + 1e-9,) * BINS, (1 / seq,) * BINS)
    costs = Costs(100.5 * seq, seq / 8) if seq % 2 else NO_COSTS
    return Receipt(seq, epoch, step, closed, tally, capability, 1, 2, brier, 0.5 + seq, shown, seq % 3, 2 * seq, costs)


def outlook(seed: int = 0) -> Outlook:
    """What the service could expect: shares that four bytes hold exactly."""
    return Outlook(seed / 7, tuple((seed + bin_) % 32 / 32 for bin_ in range(20)))


def coverage(seed: int = 0) -> Coverage:
    """How visits could spread: some of it known, some not."""
    return Coverage(
        available_tasks=100,
        distinct_tasks=seed,
        reached_share=seed / 100,
        mean_visits=seed / 7,
        most_visits=seed,
        top_tenth_share=0.1,
        pass_steps=7,
        unmet_share=None,
        visits_per_met_task=None,
        passes_done=None,
        pass_share=None,
        narrow=seed % 2 == 1,
        reason="few" * (seed % 2) or None,
    )


def once(key: str, *, scope: str = "PUT /it", fingerprint: str = "same") -> IdempotencyKey:
    return IdempotencyKey(key, fingerprint, scope)

"""Small datasets, runs, entries and receipts for the tests of stores."""

import itertools
import time

import numpy as np
from msgspec import structs
from sqlalchemy import Connection, insert

from bots_service.core.arrays import frozen
from bots_service.core.entries import Body, Entry, Report, Rewind
from bots_service.core.evidence import NO_COSTS, Costs, Evidence
from bots_service.core.receipt import BINS, Calibration, Receipt, TagCounts
from bots_service.core.run_settings import RunSettings
from bots_service.core.summary import RunFindings, RunVerdict, UniformEstimate
from bots_service.records import DatasetFacts, DatasetRow, Head, IdempotencyKey, RunRow, TaskBlock
from bots_service.storage.sql.journal import RECEIPTS, FoldedEntry, locked_head, receipt_of
from bots_service.storage.sql.journal import append as append_folded
from bots_service.storage.sql.runs import Fork
from bots_service.storage.sql.stores import SqlStores
from bots_service.storage.sql.tables import journal

names = (f"made-{number}" for number in itertools.count())


def block(start: int, count: int) -> TaskBlock:
    tasks = range(start, start + count)
    references = np.array([[task % 17 / 16, np.nan if task % 5 == 0 else 0.75] for task in tasks])
    tags: list[tuple[str, ...]] = [("math",) if task % 2 else ("code", "math") for task in tasks]
    return TaskBlock([f"task-{task}" for task in tasks], references.reshape(count, 2), tags)


def facts(size: int) -> DatasetFacts:
    return DatasetFacts("about ü", ("weak", "strong"), (0, 1), ("math",), size, 3, {"math": size}, f"digest-{size}")


async def dataset(stores: SqlStores, *, size: int = 10) -> DatasetRow:
    stage = await stores.datasets.stage()
    await stores.datasets.add_block(stage, block(0, size))
    return (await stores.datasets.create(None, next(names), stage, facts(size)))[0]


async def run(stores: SqlStores, of: DatasetRow | None = None) -> RunRow:
    row = of or await dataset(stores)
    return (await stores.runs.put(row.id, next(names), RunSettings()))[0]


def fork(source: RunRow, seq: int = 0, step: int = 0) -> Fork:
    """How a run begins that continues another one, whose `step` the entry `seq` closed."""
    entry = Entry(seq + 1, source.epoch + 1, 3, Rewind(seq, step))
    return Fork(source, step, [folded_entry(entry, step=step, closed=False)], b"a state")


def report(seed: int = 0, tasks: int = 4) -> Report:
    rng = np.random.default_rng(seed)
    successes, failures = (frozen(counts) for counts in rng.random((2, tasks)) * 16)
    some = frozen(rng.integers(0, 100, tasks).astype(np.int32))
    costs = Costs(*(rng.random(2) * 1000).tolist()) if seed % 2 else NO_COSTS
    evidence = Evidence(some, successes, failures, frozen(rng.random(tasks) < 0.5))
    return Report(evidence, seed % 7, None, costs=costs)


async def append(
    stores: SqlStores,
    run: RunRow,
    body: Body | None = None,
    *,
    step: int | None = None,
    closed: bool = True,
    key: IdempotencyKey | None = None,
) -> Receipt:
    """Append an entry with a receipt to a run, as a change of it does; each closes a step unless told otherwise."""

    def job(connection: Connection) -> Receipt:
        return append_to(connection, run, locked_head(connection, run)[0], body, step=step, closed=closed, key=key)

    return await stores.database.write(job)


def append_to(
    connection: Connection,
    run: RunRow,
    head: Head,
    body: Body | None = None,
    *,
    step: int | None = None,
    closed: bool = True,
    key: IdempotencyKey | None = None,
) -> Receipt:
    entry = Entry(head.seq + 1, head.epoch + isinstance(body, Rewind), 3, body or report())
    folded = folded_entry(entry, step=step, closed=closed, key=key)
    append_folded(connection, run.id, [folded], time.time())
    return folded.receipt


def folded_entry(
    entry: Entry, *, step: int | None = None, closed: bool = True, key: IdempotencyKey | None = None
) -> FoldedEntry:
    seq = entry.seq
    told = receipt(seq, seq if step is None else step, closed=closed, epoch=entry.epoch)
    return FoldedEntry(entry, told, key, uniform(seq), findings(seq))


async def receipt_of_entry(stores: SqlStores, run: RunRow, seq: int) -> Receipt | None:
    """Return what folding entry `seq` did, as it is stored; None if there is no such entry."""
    of = RECEIPTS.where(journal.c.run_id == run.id, journal.c.seq == seq)
    row = await stores.database.read(lambda connection: connection.execute(of).one_or_none())
    return None if row is None else receipt_of(Receipt, row)


async def write_bodies(stores: SqlStores, run: RunRow, bodies: list[str]) -> None:
    """Let the journal hold these reports, as if they had been appended."""
    entry = {"run_id": run.id, "kind": "report", "profiles": 3, "created_at": 0.0, "hidden": False}
    seqs = range(1, len(bodies) + 1)

    def job(connection: Connection) -> None:
        rows = [{**entry, **structs.asdict(receipt(seq, seq)), "body": bodies[seq - 1]} for seq in seqs]
        connection.execute(insert(journal), rows)

    await stores.database.write(job)


def receipt(seq: int, step: int, *, closed: bool = True, epoch: int = 0) -> Receipt:
    brier = None if seq == 2 else 0.2 / seq
    return Receipt(
        seq=seq,
        epoch=epoch,
        step=step,
        closed=closed,
        strategy="uniform" if seq % 4 == 0 else "pass",
        reported=seq + 2,
        effective=seq,
        all_solved=1,
        rollouts=16.0 * (seq + 2),
        successes=2.5 * seq,
        capability=None if seq == 1 else 1 / seq,
        late=1,
        expired=2,
        brier=brier,
        log_loss=0.5 + seq,
        calibration=None if brier is None else Calibration((16.0,) * BINS, (0.1 + 1e-9,) * BINS, (1 / seq,) * BINS),
        tags={"math ü": TagCounts(3, seq, 24.0, seq / 7)} if seq % 2 else {},
        new_tasks=seq % 3,
        distinct_tasks=2 * seq,
        tokens=100.5 * seq if seq % 2 else 0.0,
        seconds=seq / 8 if seq % 2 else 0.0,
        total_reported=10 * step,
        total_effective=7 * step,
        total_rollouts=160.0 * step,
    )


def findings(seq: int) -> RunFindings | None:
    """What could be found after an entry, where the service looked."""
    return None if seq % 3 else RunFindings(RunVerdict("narrow", f"Why ü, {seq}.", "What to do."), None, "A hint.")


def uniform(seq: int) -> UniformEstimate:
    """What could be expected of uniform sampling after an entry: shares that four bytes hold exactly."""
    shares = None if seq % 3 else tuple((seq + bin_) % 32 / 32 for bin_ in range(20))
    return UniformEstimate(seq % 7 / 7, 1.5 * seq, shares)


def once(key: str, *, scope: str = "PUT /it", fingerprint: str = "same") -> IdempotencyKey:
    return IdempotencyKey(key, fingerprint, scope)

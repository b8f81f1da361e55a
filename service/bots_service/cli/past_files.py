"""Old rollouts from CSV, JSON and Parquet files. Only `bots import-evidence` imports this: it loads the client."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bots_client import InvalidRequestError, Outcome, PastOutcome
from bots_service.cli.failures import CommandError
from bots_service.cli.output import counted
from bots_service.cli.progress import progress_line
from bots_service.cli.task_files import Row, WantedColumns, files_of, kind_of, read_rows

if TYPE_CHECKING:
    from bots_client import Client, PastReceipt

COLUMNS = ("successes", "trials", "rewards", "age", "at")
NUMBERS = frozenset({"successes", "trials", "age"})
ROWS, REWARDS = 10_000, 200_000  # in one request, which may have 8 MiB


@dataclass(frozen=True, slots=True)
class Ages:
    """How old the rows of a file are.

    age: in steps, of rows that say nothing of it; None: each must.
    seconds_per_step: turns times into ages; None: there are no times.
    now: the time whose age is 0; None: the newest of the file.
    """

    age: float | None
    seconds_per_step: float | None
    now: datetime | None


def read_past(file: Path, ages: Ages) -> list[PastOutcome]:
    """Return the outcomes of a file by their age in steps, the oldest first.

    Raises:
        CommandError: the file or a row can't be read, or an age is missing.
    """
    files_of([file])
    found = []
    with progress_line(file.name) as advance:
        for batch in read_rows(file, _wanted(file)):
            found += [_outcome(file, batch.first + place, row, ages) for place, row in enumerate(batch.rows, 1)]
            advance(batch.share_read, f"reading, {counted(len(found), 'row')}")
    times = [one.at for one in found if one.at is not None]
    if times and ages.seconds_per_step is None:
        raise CommandError(f"{file}: the rows have times; say how long a step took with --seconds-per-step")
    newest = ages.now or max(times, default=None)
    aged = [one if one.at is None or newest is None else _aged(one, newest - one.at, ages) for one in found]
    return sorted(aged, key=lambda one: -(one.age or 0.0))


def _aged(one: PastOutcome, since: Any, ages: Ages) -> PastOutcome:
    return replace(one, at=None, age=since.total_seconds() / (ages.seconds_per_step or 1.0))


def _wanted(file: Path) -> WantedColumns:
    """Return the columns to read: the task, and what the file has of the others."""
    import pyarrow
    from pyarrow import csv, parquet

    names: list[str] = []
    try:
        if kind_of(file) == ".csv":
            with csv.open_csv(file, parse_options=csv.ParseOptions(newlines_in_values=True)) as opened:
                names = opened.schema.names
        elif kind_of(file) == ".parquet":
            names = parquet.read_schema(file).names
    except pyarrow.ArrowException as error:
        raise CommandError(f"{file}: {error}") from error
    return WantedColumns(("task", *(name for name in COLUMNS if name in names)), NUMBERS)


def _outcome(file: Path, number: int, row: Row, ages: Ages) -> PastOutcome:
    try:
        task, successes, trials = str(row["task"]), row.get("successes"), row.get("trials")
        rewards, age, at = _listed(row.get("rewards")), row.get("age"), moment_of(row.get("at"))
        if age is None and at is None:
            age = ages.age
        if (age is None) == (at is None):
            raise ValueError("give an age in steps or a time: the column age or at, or --age for all rows")
        if successes is None and trials is None and rewards is not None:
            outcome = Outcome.rewards(task, rewards)
            if outcome.is_aborted:
                raise ValueError("no reward is a finite number")
            return PastOutcome(outcome, age, at)
        if successes is None or trials is None:
            raise ValueError("give successes and trials, or rewards")
        return PastOutcome(Outcome.counts(task, successes, trials), age, at)
    except (AttributeError, KeyError, TypeError, ValueError, InvalidRequestError) as error:
        raise CommandError(f"{file}: row {number}: {error}") from error


def _listed(rewards: Any) -> Any:
    """Return rewards as a list; a CSV file has them as text: a JSON list, or numbers between spaces."""
    if not isinstance(rewards, str):
        return rewards
    if rewards.lstrip().startswith("["):
        return json.loads(rewards)
    return [float(part) for part in rewards.split()] or None


def moment_of(at: Any) -> datetime | None:
    """Return a time: RFC 3339, or seconds since 1970; without a time zone it is UTC."""
    if at is None or at == "":
        return None
    if isinstance(at, str):
        try:
            at = float(at)
        except ValueError:
            at = datetime.fromisoformat(at)
    moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def send_past(client: "Client", dataset: str, run: str, outcomes: list[PastOutcome]) -> Iterator["PastReceipt"]:
    """Send outcomes, and yield the receipt of each part.

    A part's key is a hash of what it says, so that a command that failed can be repeated: nothing counts twice.
    """
    sent, numbers = 0, count()
    with progress_line(dataset) as advance:
        for part in parts_of(outcomes):
            content = json.dumps([one.as_wire() for one in part]).encode()
            key = f"evidence-{next(numbers)}-{hashlib.sha256(content).hexdigest()[:32]}"
            yield client.import_evidence(dataset, part, run, idempotency_key=key, deadline_s=60.0)
            sent += len(part)
            advance(sent / len(outcomes), f"sending, {counted(sent, 'row')}")


def parts_of(outcomes: list[PastOutcome]) -> Iterator[list[PastOutcome]]:
    """Yield the outcomes in parts that fit into a request."""
    part: list[PastOutcome] = []
    rewards = 0
    for one in outcomes:
        own = len(dict(one.outcome.evidence).get("rewards", ()))
        if part and (len(part) == ROWS or rewards + own > REWARDS):
            yield part
            part, rewards = [], 0
        part.append(one)
        rewards += own
    if part:
        yield part

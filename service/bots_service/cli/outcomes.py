"""Outcomes from the command line and from JSON."""

import json
import sys
from pathlib import Path
from typing import Any

import typer

from bots_client import InvalidRequestError, Outcome
from bots_service.cli.failures import CommandError

FORMS = "TASK=SUCCESSES/TRIALS, TASK=REWARD,REWARD,... or TASK=aborted"


def outcome_of(text: str) -> Outcome:
    """Return the outcome that an argument tells: `math-17=7/16`, `math-4=0,1,0.5` or `math-9=aborted`.

    Raises:
        typer.BadParameter: it tells none.
    """
    task, equals, told = text.rpartition("=")  # an id may hold an equals sign, what is told of it does not
    successes, slash, trials = told.partition("/")
    try:
        if not (equals and task):
            raise ValueError(text)
        if told == "aborted":
            return Outcome.aborted(task)
        if slash:
            return Outcome.counts(task, float(successes), float(trials))
        return Outcome.rewards(task, [float(reward) for reward in told.split(",")])
    except (ValueError, InvalidRequestError) as error:
        raise typer.BadParameter(f"{text!r} is none of {FORMS}", param_hint="OUTCOME") from error


def read_report(file: str) -> tuple[list[Outcome], str | None]:
    """Return the outcomes in a JSON file ("-": stdin), and the selection they belong to if it says so.

    Raises:
        CommandError: it holds none.
    """
    try:
        content = json.loads(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes())
    except ValueError as error:
        raise CommandError(f"{file}: no JSON: {error}") from error
    selection = content.get("selection_id") if isinstance(content, dict) else None
    rows = content.get("outcomes") if isinstance(content, dict) else content
    if not isinstance(rows, list) or not (selection is None or isinstance(selection, str)):
        raise CommandError(f'{file}: expected a list of outcomes, or {{"selection_id": "...", "outcomes": [...]}}')
    return [_outcome_in(file, place, row) for place, row in enumerate(rows, 1)], selection


def _outcome_in(file: str, place: int, row: Any) -> Outcome:
    try:
        if row.get("status") == "aborted":
            return Outcome.aborted(row["task"])
        if "rewards" in row:
            return Outcome.rewards(row["task"], row["rewards"])
        return Outcome.counts(row["task"], row["successes"], row["trials"])
    except (AttributeError, KeyError, TypeError, InvalidRequestError) as error:
        forms = "a task with successes and trials, with rewards, or with the status aborted"
        raise CommandError(f"{file}: outcome {place} is not {forms}: {json.dumps(row)[:100]}") from error

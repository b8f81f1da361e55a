"""Rows of runs, to and from records."""

import json
import secrets
from typing import Any

from sqlalchemy import Connection, CursorResult, insert

from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.ports.records import Parent, RunRow
from bots_service.storage.database import SqlRow
from bots_service.storage.tables import runs

DEFAULT_RUN = "default"  # every dataset has it, so that a first user never needs to know the word

_INSERT = insert(runs)


def new_uid() -> str:
    """Return a name for a run that no other run ever has."""
    return secrets.token_hex(8)


def settings_text(settings: RunSettings) -> str:
    """Return the settings as JSON, those left at their default too: a default may change, a run must not."""
    return json.dumps(settings.as_dict(), separators=(",", ":"), allow_nan=False)


def insert_run(connection: Connection, dataset_id: int, name: str, settings: RunSettings, now: float) -> int:
    """Insert a run with an empty journal and return its id."""
    values = {
        "uid": new_uid(),
        "dataset_id": dataset_id,
        "name": name,
        "settings": settings_text(settings),
        "head": 0,
        "epoch": 0,
        "created_at": now,
    }
    return new_id(connection.execute(_INSERT, values))


def new_id(result: CursorResult[*tuple[Any, ...]]) -> int:
    """Return the number that the database gave to an inserted row."""
    key = result.inserted_primary_key
    if key is None:
        raise ValueError("the statement inserted no row")
    return int(key[0])


def run_of(row: SqlRow) -> RunRow:
    """Return the run that a row holds."""
    parent = None if row.parent_run is None else Parent(row.parent_run, row.parent_step, row.parent_seq)
    return RunRow(
        id=row.id,
        uid=row.uid,
        dataset_id=row.dataset_id,
        name=row.name,
        settings=settings_from(json.loads(row.settings)),
        head=row.head,
        epoch=row.epoch,
        created_at=row.created_at,
        parent=parent,
    )

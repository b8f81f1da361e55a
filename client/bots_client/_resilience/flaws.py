"""Saving the rest of a report whose outcomes were refused in part: one impossible reward must not cost a whole step."""

import json
from collections.abc import Sequence
from typing import Any

from bots_client._errors import FieldError

OUTCOMES = ("body", "outcomes")  # where a flaw of an outcome lies, before its index


def without_flaws(body: bytes, flaws: Sequence[FieldError]) -> tuple[bytes, bytes] | None:
    """Return a report without the outcomes that have flaws, and one with only these.

    Args:
        body: of the report, as it was sent.
        flaws: what the service said.

    Returns:
        None if a flaw lies elsewhere, or no outcome would be left.
    """
    flawed = {flaw.loc[2] for flaw in flaws if len(flaw.loc) > 2 and flaw.loc[:2] == OUTCOMES}
    report = json.loads(body)
    outcomes = report.get("outcomes", [])
    sound = [outcome for index, outcome in enumerate(outcomes) if index not in flawed]
    refused = [outcome for index, outcome in enumerate(outcomes) if index in flawed]
    if not refused or any(flaw.loc[:2] != OUTCOMES for flaw in flaws) or not sound:
        return None
    return _bytes({**report, "outcomes": sound}), _bytes({**report, "outcomes": refused})


def _bytes(report: dict[str, Any]) -> bytes:
    return json.dumps(report, separators=(",", ":")).encode()

"""Opaque cursors: the position after which the next page of a list begins, as base64url of JSON."""

import base64
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from bots_service.api.parameters import whole
from bots_service.core.checks import NAME
from bots_service.errors import Flaw, InvalidInputError

# JSON numbers up to this size are exact in every language; indices, steps and seqs are much smaller.
Number = Annotated[int, Meta(ge=0, le=2**53)]


class AfterName(Struct, frozen=True, forbid_unknown_fields=True):
    """The next page of a list by name begins after this name."""

    name: Annotated[str, whole(NAME)]


class AfterNumber(Struct, frozen=True, forbid_unknown_fields=True):
    """The next page of a list by step or seq begins after this number."""

    number: Number


class AfterTask(Struct, frozen=True, forbid_unknown_fields=True):
    """The next page of tasks in this order begins after the task with this value and index."""

    sort: str
    value: float
    index: Number


class AfterRun(Struct, frozen=True, forbid_unknown_fields=True):
    """The next page of runs in this order begins after the run with this value, in this group of runs."""

    sort: str
    group: Annotated[int, Meta(ge=0, le=2)]
    value: float
    dataset: Annotated[str, whole(NAME)]
    run: Annotated[str, whole(NAME)]


Position = TypeVar("Position", AfterName, AfterNumber, AfterTask, AfterRun)
SortedPosition = TypeVar("SortedPosition", AfterTask, AfterRun)


def write_cursor(position: AfterName | AfterNumber | AfterTask | AfterRun) -> str:
    """Return the cursor of a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def read_cursor(cursor: str, kind: type[Position]) -> Position:
    """Return the position of a cursor.

    Raises:
        InvalidInputError: it is not a cursor of this kind of list.
    """
    padding = "=" * (-len(cursor) % 4)
    try:
        return msgspec.json.decode(base64.b64decode(cursor + padding, altchars=b"-_", validate=True), type=kind)
    except ValueError as error:  # from base64, UTF-8 or msgspec
        raise _broken_cursor() from error


def read_sorted_cursor(cursor: str | None, kind: type[SortedPosition], sort: str) -> SortedPosition | None:
    """Return the position of a cursor in a list in this order; None for the first page.

    Raises:
        InvalidInputError: it is not a cursor of this kind of list, or of another order.
    """
    if cursor is None:
        return None
    position = read_cursor(cursor, kind)
    if position.sort != sort:
        raise _broken_cursor()
    return position


def _broken_cursor() -> InvalidInputError:
    """Return the error for an invalid cursor."""
    flaw = Flaw(("query", "cursor"), "not a cursor of this list; leave it out for the first page")
    return InvalidInputError("invalid cursor", (flaw,))

"""Opaque cursors: the position after which the next page of a list begins, as base64url of JSON."""

import base64
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bots_service.api.parameters import whole
from bots_service.core.checks import NAME
from bots_service.errors import Flaw, InvalidInputError

# JSON numbers up to this size are exact in every language; indices, steps and seqs are much smaller.
Number = Annotated[int, Meta(ge=0, le=2**53)]


Name = Annotated[str, whole(NAME)]

# The next page begins after this:
AfterName = Name
AfterNumber = Number  # a step or seq
AfterTask = tuple[str, float, Number]  # of tasks in an order, the task with this value and index
AfterRun = tuple[str, Annotated[int, Meta(ge=0, le=2)], float, Name, Name]  # of runs: group, value, dataset and run


def write_cursor(position: str | int | tuple[str | float, ...]) -> str:
    """Return the cursor of a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def read_cursor(cursor: str, kind: Any) -> Any:
    """Return the position of a cursor.

    Raises:
        InvalidInputError: it is not a cursor of this kind of list.
    """
    padding = "=" * (-len(cursor) % 4)
    try:
        return msgspec.json.decode(base64.b64decode(cursor + padding, altchars=b"-_", validate=True), type=kind)
    except ValueError as error:  # from base64, UTF-8 or msgspec
        raise _broken_cursor() from error


def read_sorted_cursor(cursor: str | None, kind: Any, sort: str) -> Any:
    """Return the position of a cursor in a list in this order, without the order; None for the first page.

    Raises:
        InvalidInputError: it is not a cursor of this kind of list, or of another order.
    """
    if cursor is None:
        return None
    order, *position = read_cursor(cursor, kind)
    if order != sort:
        raise _broken_cursor()
    return tuple(position)


def _broken_cursor() -> InvalidInputError:
    """Return the error for an invalid cursor."""
    flaw = Flaw(("query", "cursor"), "not a cursor of this list; leave it out for the first page")
    return InvalidInputError("invalid cursor", (flaw,))

"""Checks of argument types, before anything is sent; an error names the parameter, its value and what to write.

A bug in the calling program is a TypeError, raised at the first call. Invalid content, such as a reward that is
not a number, is an InvalidRequestError.
"""

import reprlib
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def wrong_type(name: str, expected: str, value: object, *, write: str = "") -> TypeError:
    """Return the error for an argument of the wrong type.

    Args:
        name: name of the parameter.
        expected: the expected type, with an article.
        value: the argument.
        write: code to write instead.
    """
    got = "None" if value is None else f"the {type(value).__name__} {_short.repr(value)}"
    return TypeError(f"{name}: expected {expected}, got {got}" + (f"; write {write}" if write else ""))


def checked_str(value: str, name: str, *, write: str = "") -> str:
    """Return the value.

    Raises:
        TypeError: it is not a str.
    """
    if not isinstance(value, str):
        raise wrong_type(name, "a str", value, write=write)
    return value


def checked_number(value: Any, name: str) -> Any:
    """Return the value; numbers of any library are accepted.

    Raises:
        TypeError: it is not a number, for example a str of digits.
    """
    if isinstance(value, str | bytes | bool) or not hasattr(value, "__float__"):
        raise wrong_type(name, "a number", value)
    return value


def checked_list(values: Iterable[T], name: str, expected: str, *, write: str = "") -> list[T]:
    """Return an iterable as a list.

    Raises:
        TypeError: it is not iterable, or is a single str, which would be split into its characters.
    """
    if isinstance(values, str | bytes):
        raise wrong_type(name, expected, values, write=write or f"[{values!r}]")
    try:
        found = iter(values)
    except TypeError:
        raise wrong_type(name, expected, values, write=write) from None
    return list(found)


def checked_strings(values: Iterable[str], name: str) -> list[str]:
    """Return an iterable of strings as a list.

    Raises:
        TypeError: it is a single str, or an item is not a str.
    """
    listed = checked_list(values, name, "a list of str")
    for place, value in enumerate(listed):
        checked_str(value, f"{name}[{place}]")
    return listed


def refuse_single_str(**lists: Iterable[str]) -> None:
    """Check that no argument is a single str; the items are not checked.

    Raises:
        TypeError: an argument is a str.
    """
    for name, values in lists.items():
        if isinstance(values, str):
            raise wrong_type(name, "a list of str", values, write=f"[{values!r}]")


def require_size(count: Any, want_effective: Any) -> None:
    """Check that a selection says how many tasks it is for, in one of both ways.

    Raises:
        TypeError: neither count nor want_effective is given, or both.
    """
    if (count is None) == (want_effective is None):
        given = "neither" if count is None else "both"
        raise TypeError(f"select: pass either count or want_effective, got {given}")


def checked_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of a trainer's tasks as a tuple.

    Raises:
        ValueError: there are none, an id is repeated, or an id is not a str.
    """
    checked: dict[str, None] = {}
    for task in checked_list(ids, "ids", "a list of str"):
        if not isinstance(task, str):
            raise ValueError(f"ids contains {task!r}, which is not a str; pass [str(row_id) for row_id in ...]")
        if task in checked:
            raise ValueError(f"ids contains {task!r} twice; give each task its own id")
        checked[task] = None
    if not checked:
        raise ValueError("ids is empty; pass the ids of all tasks that the trainer has")
    return tuple(checked)

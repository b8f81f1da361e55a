"""Refuse arguments of the wrong type before anything is sent: which parameter, what it is, and what to write.

A mistake of the program is a TypeError, raised at the first call. Content that cannot be true, such as a reward that is
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
        name: of the parameter.
        expected: what it takes, with its article.
        value: what it got.
        write: what to write instead, as code.
    """
    got = "None" if value is None else f"the {type(value).__name__} {_short.repr(value)}"
    return TypeError(f"{name}: expected {expected}, got {got}" + (f"; write {write}" if write else ""))


def checked_str(value: str, name: str, *, write: str = "") -> str:
    """Return a string.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, str):
        raise wrong_type(name, "a str", value, write=write)
    return value


def checked_number(value: Any, name: str) -> Any:
    """Return a number, of whatever library.

    Raises:
        TypeError: it is something else, such as a text of digits.
    """
    if isinstance(value, str | bytes | bool) or not hasattr(value, "__float__"):
        raise wrong_type(name, "a number", value)
    return value


def checked_list(values: Iterable[T], name: str, expected: str, *, write: str = "") -> list[T]:
    """Return what can be gone through as a list.

    Raises:
        TypeError: it is one text, which would be taken apart into its letters, or cannot be gone through.
    """
    if isinstance(values, str | bytes):
        raise wrong_type(name, expected, values, write=write or f"[{values!r}]")
    try:
        found = iter(values)
    except TypeError:
        raise wrong_type(name, expected, values, write=write) from None
    return list(found)


def checked_strings(values: Iterable[str], name: str) -> list[str]:
    """Return strings as a list.

    Raises:
        TypeError: it is one text, or holds something else than texts.
    """
    listed = checked_list(values, name, "a list of str")
    for place, value in enumerate(listed):
        checked_str(value, f"{name}[{place}]")
    return listed


def refuse_single_str(**lists: Iterable[str]) -> None:
    """Check that no list is one text, by name; large lists are not gone through.

    Raises:
        TypeError: one of them is.
    """
    for name, values in lists.items():
        if isinstance(values, str):
            raise wrong_type(name, "a list of str", values, write=f"[{values!r}]")

"""Decodes the service's answers into the dataclasses of `_models`.

Unknown fields are ignored and fields with a default may be missing, so that an older client understands a newer
service. A value of the wrong type raises an error that says where it is, so that it never reaches a training loop.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

# type -> what JSON has for it, and what to call that in an error
SCALARS: dict[Any, tuple[type | UnionType, str]] = {
    str: (str, "a text"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    bool: (bool, "true or false"),
    datetime: (str, "a time"),
}


def into(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function that decodes a JSON body as the dataclass.

    It raises ValueError if the body is not JSON, or does not match the dataclass.
    """
    return lambda body: _decoded(json.loads(body), kind, "")


def page_of(kind: type[T], name: str) -> Callable[[bytes], tuple[tuple[T, ...], str | None]]:
    """Return a function that decodes one page of a list: its items, and the next page's cursor or None.

    Args:
        kind: dataclass of the items.
        name: field that holds them.
    """

    def read(body: bytes) -> tuple[tuple[T, ...], str | None]:
        page = _checked(json.loads(body), "", dict, "an object")
        items = _decoded(page.get(name), tuple[kind, ...], name)  # type: ignore[valid-type]
        return items, _decoded(page.get("next_cursor"), str | None, "next_cursor")

    return read


def nothing(body: bytes) -> None:
    """Ignore the body of an answer whose status is its result."""


def _decoded(value: Any, kind: Any, place: str) -> Any:
    """Return a value of JSON as a type of a field.

    Args:
        place: of the value in the answer, for errors.
    """
    if kind in SCALARS:
        return _scalar(value, kind, place)
    origin, parts = _shape(kind)
    if origin is UnionType:
        return _one_of(value, parts, place)
    if origin is tuple:
        items = _checked(value, place, list, "a list")
        kinds = (parts[0],) * len(items) if parts[-1] is ... else parts
        if len(items) != len(kinds):
            raise ValueError(f"{place}: {len(items)} values instead of {len(kinds)}")
        return tuple([_decoded(item, kinds[at], f"{place}.{at}") for at, item in enumerate(items)])
    given = _checked(value, place, dict, "an object")
    if origin is Mapping:
        return {name: _decoded(item, parts[1], f"{place}.{name}") for name, item in given.items()}
    found = {}
    for name, own, usual, is_required in parts:
        if name in given:
            item = given[name]
            found[name] = item if type(item) is usual else _decoded(item, own, f"{place}.{name}" if place else name)
        elif is_required:
            raise ValueError(f"{place}.{name}: missing".lstrip("."))
    return kind(**found)


@cache
def _shape(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type's origin and arguments.

    For a dataclass, its fields: name, type, the one that values mostly have and need no look then, whether it must be
    there. A selection may have thousands of tasks.
    """
    if not dataclasses.is_dataclass(kind):
        origin = get_origin(kind)
        return UnionType if origin is Union else origin, get_args(kind)
    hints, missing, fields = get_type_hints(kind), dataclasses.MISSING, []
    for field in dataclasses.fields(kind):
        own = hints[field.name]
        usual = get_args(own)[0] if get_origin(own) in (Union, UnionType) else own
        is_required = field.default is missing and field.default_factory is missing
        fields.append((field.name, own, usual, is_required))
    return kind, tuple(fields)


def _one_of(value: Any, kinds: tuple[Any, ...], place: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not NoneType)
    for kind in others:
        try:
            return _decoded(value, kind, place)
        except ValueError:
            continue
    return _decoded(value, last, place)


def _scalar(value: Any, kind: Any, place: str) -> Any:
    """Return a plain value; true and false are no numbers."""
    accepted, wanted = SCALARS[kind]
    if isinstance(value, bool) and kind is not bool:
        raise _unfit(value, place, wanted)
    _checked(value, place, accepted, wanted)
    try:
        if kind is datetime:  # Z: from Python 3.11
            return datetime.fromisoformat(value[:-1] + "+00:00" if value.endswith("Z") else value)
        return float(value) if kind is float else value
    except (ValueError, OverflowError) as error:
        raise _unfit(value, place, wanted) from error


def _checked(value: Any, place: str, kind: type | UnionType, wanted: str) -> Any:
    if isinstance(value, kind):
        return value
    raise _unfit(value, place, wanted)


def _unfit(value: Any, place: str, wanted: str) -> ValueError:
    return ValueError(f"{place or 'response'}: expected {wanted}, got {str(value)[:60]!r}")

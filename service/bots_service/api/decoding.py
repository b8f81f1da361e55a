"""Decodes JSON into typed values; errors say where and what is wrong."""

import json
import re
from ast import literal_eval
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from bots_service.errors import Flaw, InvalidInputError, MalformedBodyError, not_a_choice

Value = TypeVar("Value")

_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_PART = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_CHOICE = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_FIELD = re.compile(r"(?:unknown|required) field `(.+)`$")
SHOWN = 200  # characters of a message that may contain client data


def decode(kind: type[Value], body: bytes, where: tuple[str | int, ...] = ("body",)) -> Value:
    """Return the value of this type in a JSON text. where: its location, for messages.

    Raises:
        InvalidInputError: it is JSON of another shape.
        MalformedBodyError: it is not JSON.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidInputError("invalid request body", (_flaw(str(error), where, kind),)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        place = "" if where == ("body",) else f" at {'.'.join(map(str, where[1:]))}"
        raise MalformedBodyError(f"the body is not JSON{place}: {str(error)[:SHOWN]}") from error


def decode_plain(kind: type[Value], body: bytes) -> Value:
    """Return the typed value of a body; a repeated name is refused, because msgspec would use the last one.

    Raises:
        InvalidInputError: a name is repeated, or the JSON does not match the type.
        MalformedBodyError: it is not JSON.
    """
    value = decode(kind, body)
    json.loads(body, object_pairs_hook=_once_each)
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)[:SHOWN]
        raise InvalidInputError(
            "the body repeats a name", (Flaw(("body", twice), "this name occurs twice in one object"),)
        )
    return found


def _flaw(message: str, where: tuple[str | int, ...], expected: Any) -> Flaw:
    """Return the flaw in a message of msgspec such as "Expected `int`, got `str` - at `$.outcomes[3].trials`"."""
    place = _PLACE.search(message)
    text = message[: place.start()] if place else message
    path: list[str | int] = []
    for name, index in _PART.findall(place["path"] if place else ""):
        path.append(name or (int(index) if index.isdecimal() else index))
    choice = _CHOICE.match(text)
    if choice:
        text = not_a_choice(literal_eval(choice[1]), _choices(inspect.type_info(expected), path))
    field = _FIELD.search(text)
    if field:
        path.append(field[1][:SHOWN])
    return Flaw((*where, *path), text[:SHOWN])


def _choices(expected: inspect.Type, path: Sequence[str | int]) -> list[str]:
    """Return the values that a type allows in a field, given by its path; none if the field is not an enumeration."""
    if isinstance(expected, inspect.Metadata):
        return _choices(expected.type, path)
    if isinstance(expected, inspect.UnionType):
        return [choice for each in expected.types for choice in _choices(each, path)]
    if not path:
        if isinstance(expected, inspect.EnumType):
            return [str(member.value) for member in expected.cls]
        return [str(value) for value in expected.values] if isinstance(expected, inspect.LiteralType) else []
    if isinstance(expected, inspect.StructType):
        inner = next(field.type for field in expected.fields if field.encode_name == path[0])
        return _choices(inner, path[1:])
    if isinstance(expected, inspect.ListType | inspect.FrozenSetType):
        return _choices(expected.item_type, path[1:])
    return []

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
Decoder = Callable[[Any, str], Any]  # the value, its place in the answer


def into(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function that decodes a JSON body as the dataclass.

    It raises ValueError if the body is not JSON, or does not match the dataclass.
    """
    decode = _decoder(kind)  # type: ignore[arg-type]  # a class can be hashed

    def read(body: bytes) -> T:
        value: T = decode(json.loads(body), "")
        return value

    return read


def page_of(kind: type[T], name: str) -> Callable[[bytes], tuple[tuple[T, ...], str | None]]:
    """Return a function that decodes one page of a list: its items, and the next page's cursor or None.

    Args:
        kind: dataclass of the items.
        name: field that holds them.
    """
    page = dataclasses.make_dataclass("Page", [(name, tuple[kind, ...]), ("next_cursor", str | None, None)])  # type: ignore[valid-type]
    decode = _decoder(page)

    def read(body: bytes) -> tuple[tuple[T, ...], str | None]:
        found = decode(json.loads(body), "")
        return getattr(found, name), found.next_cursor

    return read


def nothing(body: bytes) -> None:
    """Ignore the body of an answer whose status is its result."""


@cache
def _decoder(kind: Any) -> Decoder:
    """Return the decoder of a type; made once, because a selection may have thousands of tasks."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    if dataclasses.is_dataclass(kind):
        return _object_decoder(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union_decoder(args)
    if origin is tuple:
        return _list_decoder(args)
    if origin is Mapping:
        return _mapping_decoder(args[1])
    raise TypeError(f"no decoder for {kind}")


def _object_decoder(kind: Any) -> Decoder:
    hints, missing = get_type_hints(kind), dataclasses.MISSING
    fields = [
        (field.name, _decoder(hints[field.name]), field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(kind)
    ]

    def decode(value: Any, place: str) -> Any:
        given, found = _checked(value, place, dict, "an object"), {}
        for name, decode_field, is_required in fields:
            if name in given:
                found[name] = decode_field(given[name], f"{place}.{name}")
            elif is_required:
                raise ValueError(f"{place}.{name}: missing".lstrip("."))
        return kind(**found)

    return decode


def _union_decoder(kinds: tuple[Any, ...]) -> Decoder:
    decoders = [_decoder(kind) for kind in kinds if kind is not NoneType]

    def decode(value: Any, place: str) -> Any:
        if value is None and NoneType in kinds:
            return None
        for decode_kind in decoders[:-1]:
            try:
                return decode_kind(value, place)
            except ValueError:
                continue
        return decoders[-1](value, place)

    return decode


def _list_decoder(kinds: tuple[Any, ...]) -> Decoder:
    """Return the decoder of a tuple: of any length if the second type is an ellipsis, otherwise of these types."""
    decoders = [_decoder(kind) for kind in kinds if kind is not ...]
    is_any_length = kinds[-1] is ...

    def decode(value: Any, place: str) -> tuple[Any, ...]:
        items = _checked(value, place, list, "a list")
        if not is_any_length and len(items) != len(decoders):
            raise ValueError(f"{place.lstrip('.')}: {len(items)} values instead of {len(decoders)}")
        each = decoders * len(items) if is_any_length else decoders
        return tuple(
            decode_item(item, f"{place}.{at}") for at, (decode_item, item) in enumerate(zip(each, items, strict=True))
        )

    return decode


def _mapping_decoder(kind: Any) -> Decoder:
    decode_item = _decoder(kind)

    def decode(value: Any, place: str) -> dict[str, Any]:
        given = _checked(value, place, dict, "an object")
        return {name: decode_item(item, f"{place}.{name}") for name, item in given.items()}

    return decode


def _scalar(kind: Any, wanted: str, convert: Callable[[Any], Any] | None = None) -> Decoder:
    """Return the decoder of a plain value; true and false are no numbers."""

    def decode(value: Any, place: str) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _unfit(value, place, wanted)
        try:
            return value if convert is None else convert(value)
        except (ValueError, OverflowError) as error:
            raise _unfit(value, place, wanted) from error

    return decode


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)  # Z: from Python 3.11


def _checked(value: Any, place: str, kind: Any, wanted: str) -> Any:
    if isinstance(value, kind):
        return value
    raise _unfit(value, place, wanted)


def _unfit(value: Any, place: str, wanted: str) -> ValueError:
    return ValueError(f"{place.lstrip('.') or 'response'}: expected {wanted}, got {str(value)[:60]!r}")


_SCALARS: dict[Any, Decoder] = {
    str: _scalar(str, "a text"),
    int: _scalar(int, "a whole number"),
    float: _scalar(int | float, "a number", float),
    bool: _scalar(bool, "true or false"),
    datetime: _scalar(str, "a time", _moment),
}

"""Decodes the service's responses into the dataclasses of `_models`.

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
Decoder = Callable[[Any, str], Any]  # the value, its place in the response


def into(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function that decodes a JSON body as the dataclass.

    It raises ValueError if the body is not JSON, or does not match the dataclass.
    """
    decode = _decoder(kind)

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
    decode, cursor = _decoder(tuple[kind, ...]), _decoder(str | None)  # type: ignore[valid-type]

    def read(body: bytes) -> tuple[tuple[T, ...], str | None]:
        page = _mapping(json.loads(body), "")
        if name not in page:
            raise ValueError(f"{name}: missing")
        return decode(page[name], name), cursor(page.get("next_cursor"), "next_cursor")

    return read


def field_of(kind: type[T], name: str) -> Callable[[bytes], T]:
    """Return a function that decodes one field of a response."""
    decode = _decoder(kind)

    def read(body: bytes) -> T:
        answer = _mapping(json.loads(body), "")
        if name not in answer:
            raise ValueError(f"{name}: missing")
        value: T = decode(answer[name], name)
        return value

    return read


def nothing(body: bytes) -> None:
    """Ignore the body of a response whose status is its result."""


def _decoder(kind: Any) -> Decoder:
    """Return the decoder of a type; cached, because a selection may have thousands of tasks."""
    return _built_decoder(kind)


@cache
def _built_decoder(kind: Any) -> Decoder:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if dataclasses.is_dataclass(kind):
        return _object_decoder(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union_decoder(args)
    if origin is tuple and args[1:] == (...,):
        return _list_decoder(args[0])
    if origin is tuple:
        return _row_decoder(args)
    if origin is Mapping:
        return _mapping_decoder(args[1])
    raise TypeError(f"no decoder for {kind}")


def _object_decoder(kind: Any) -> Decoder:
    hints = get_type_hints(kind)
    fields = [(field.name, _decoder(hints[field.name]), _is_required(field)) for field in dataclasses.fields(kind)]

    def decode(value: Any, place: str) -> Any:
        given = _mapping(value, place)
        found = {}
        for name, decode_field, required in fields:
            if name in given:
                found[name] = decode_field(given[name], f"{place}.{name}")
            elif required:
                raise ValueError(f"{place}.{name}: missing")
        return kind(**found)

    return decode


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


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


def _list_decoder(kind: Any) -> Decoder:
    decode_item = _decoder(kind)

    def decode(value: Any, place: str) -> tuple[Any, ...]:
        return tuple(decode_item(item, f"{place}.{index}") for index, item in enumerate(_list(value, place)))

    return decode


def _row_decoder(kinds: tuple[Any, ...]) -> Decoder:
    decoders = [_decoder(kind) for kind in kinds]

    def decode(value: Any, place: str) -> tuple[Any, ...]:
        items = _list(value, place)
        if len(items) != len(decoders):
            raise ValueError(f"{place}: {len(items)} values instead of {len(decoders)}")
        return tuple(
            decode_item(item, f"{place}.{index}")
            for index, (decode_item, item) in enumerate(zip(decoders, items, strict=True))
        )

    return decode


def _mapping_decoder(kind: Any) -> Decoder:
    decode_item = _decoder(kind)

    def decode(value: Any, place: str) -> dict[str, Any]:
        return {name: decode_item(item, f"{place}.{name}") for name, item in _mapping(value, place).items()}

    return decode


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise _unfit(value, place, "an object")


def _list(value: Any, place: str) -> list[Any]:
    if isinstance(value, list):
        return value
    raise _unfit(value, place, "a list")


def _text(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    raise _unfit(value, place, "a text")


def _integer(value: Any, place: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _unfit(value, place, "a whole number")


def _number(value: Any, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise _unfit(value, place, "a number")


def _boolean(value: Any, place: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _unfit(value, place, "true or false")


def _moment(value: Any, place: str) -> datetime:
    try:
        text = _text(value, place)
        return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)  # Z: from Python 3.11
    except ValueError as error:
        raise _unfit(value, place, "a time") from error


def _unfit(value: Any, place: str, wanted: str) -> ValueError:
    return ValueError(f"{place.lstrip('.') or 'response'}: expected {wanted}, got {str(value)[:60]!r}")


_SCALARS: dict[Any, Decoder] = {
    str: _text,
    int: _integer,
    float: _number,
    bool: _boolean,
    datetime: _moment,
}

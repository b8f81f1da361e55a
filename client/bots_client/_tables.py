"""Answers as tables: a pandas DataFrame with a row for each item and a column for each field.

A field that is a dataclass gives a column for each of its own fields, such as `settings.target`. Columns have the same
names and types if there are no rows. pandas is imported when it is needed; the client installs without.
"""

import dataclasses
from collections.abc import Generator, Iterator, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


class Table:
    """An answer that holds rows: the one field that is a tuple of dataclasses."""

    __slots__ = ()

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the rows as a pandas DataFrame; whole numbers that may be missing are Int64, times are UTC.

        Raises ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            what = "to_pandas() needs pandas, which is not installed: pip install pandas (the client's extra [pandas])"
            raise ImportError(what, name="pandas") from error
        plain = {int: "int64", float: "float64", bool: "bool", str: "string"}
        nullable = {**plain, int: "Int64", bool: "boolean"}
        series = dict[str, Any]()
        kind, rows = self._kind_and_rows()
        for name, own, is_optional in _columns(kind):
            values = [_value_at(row, name) for row in rows]
            if own is datetime:
                series[name] = pandas.Series(pandas.to_datetime(values, utc=True))
            else:
                dtypes = nullable if is_optional else plain
                series[name] = pandas.Series(values, dtype=dtypes.get(own, "object"))
        return pandas.DataFrame(series)

    def _kind_and_rows(self) -> tuple[type, Sequence[Any]]:
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is tuple and dataclasses.is_dataclass(get_args(kind)[0]):
                return get_args(kind)[0], getattr(self, name)
        raise TypeError(f"{type(self).__name__} has no rows")


class Listing(Table, Iterator[T]):
    """The items of a list, read a page at a time; `to_pandas` reads those that are left."""

    def __init__(self, kind: type[T], items: Generator[T, None, None]) -> None:
        self._kind = kind
        self._items = items

    def __next__(self) -> T:
        return next(self._items)

    def _kind_and_rows(self) -> tuple[type, Sequence[Any]]:
        return self._kind, list(self)


def _columns(kind: Any, prefix: str = "", *, may_be_missing: bool = False) -> Iterator[tuple[str, Any, bool]]:
    """Yield the name of each column of a dataclass, its type without None, and whether values may be None."""
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        own, name, is_optional = hints[field.name], f"{prefix}{field.name}", may_be_missing
        if get_origin(own) in (Union, UnionType):
            is_optional |= NoneType in get_args(own)
            own = next(each for each in get_args(own) if each is not NoneType)
        if dataclasses.is_dataclass(own):
            yield from _columns(own, f"{name}.", may_be_missing=is_optional)
        else:
            yield name, own, is_optional


def _value_at(row: Any, column: str) -> Any:
    for name in column.split("."):
        row = None if row is None else getattr(row, name)
    return row

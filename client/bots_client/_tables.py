"""Answers as tables: a pandas DataFrame or an Arrow table with a row for each item and a column for each field.

A field that is a dataclass gives a column for each of its own fields, such as `settings.target`. Columns have the same
names and types if there are no rows. pandas and pyarrow are imported when they are needed; the client installs without.
"""

import dataclasses
import importlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    import pandas
    import pyarrow

T = TypeVar("T")


class Table:
    """An answer that holds rows: the one field that is a tuple of dataclasses."""

    __slots__ = ()

    def to_pandas(self) -> "pandas.DataFrame":
        """Return `to_arrow` as a pandas DataFrame; whole numbers are Int64, which may be missing.

        Raises ImportError: pandas or pyarrow is not installed.
        """
        pandas, pyarrow = (_imported(package, "to_pandas") for package in ("pandas", "pyarrow"))
        types = {
            pyarrow.int64(): pandas.Int64Dtype(),
            pyarrow.bool_(): pandas.BooleanDtype(),
            pyarrow.string(): pandas.StringDtype(),
        }
        return self.to_arrow().to_pandas(types_mapper=types.get)

    def to_arrow(self) -> "pyarrow.Table":
        """Return the rows as an Arrow table; objects such as an entry's `changed`, and lists of them, are JSON text.

        Raises ImportError: pyarrow is not installed.
        """
        pyarrow = _imported("pyarrow", "to_arrow")
        types = {
            int: pyarrow.int64(),
            float: pyarrow.float64(),
            bool: pyarrow.bool_(),
            str: pyarrow.string(),
            datetime: pyarrow.timestamp("us", tz="UTC"),
        }
        arrays, fields = [], []
        kind, rows = self._kind_and_rows()
        for name, own, is_optional in _columns(kind):
            values = [_value_at(row, name) for row in rows]
            if get_origin(own) is Mapping or any(dataclasses.is_dataclass(item) for item in get_args(own)):
                values = [None if value is None else json.dumps(value, default=dataclasses.asdict) for value in values]
                own = str  # noqa: PLW2901 - as JSON
            arrow_type = types[own] if own in types else pyarrow.list_(types[get_args(own)[0]])
            arrays.append(pyarrow.array(values, arrow_type))
            fields.append(pyarrow.field(name, arrow_type, nullable=is_optional))
        return pyarrow.table(arrays, schema=pyarrow.schema(fields))

    def _kind_and_rows(self) -> tuple[type, Sequence[Any]]:
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is tuple and dataclasses.is_dataclass(get_args(kind)[0]):
                return get_args(kind)[0], getattr(self, name)
        raise TypeError(f"{type(self).__name__} has no rows")


class Listing(Table, Iterator[T]):
    """The items of a list, read a page at a time; `to_pandas` and `to_arrow` read those that are left."""

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


def _imported(package: str, method: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        extra = method.removeprefix("to_")
        what = f"{method}() needs {package}, which is not installed: pip install {package}"
        raise ImportError(f"{what} (the client's extra [{extra}])", name=package) from error

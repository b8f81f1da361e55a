"""Answers as tables: a pandas DataFrame or an Arrow table with a row for each item and a column for each field.

A field that is a dataclass gives a column for each of its own fields, such as `settings.target`. Columns have the same
names and types if there are no rows. pandas and pyarrow are imported when they are needed; the client installs without.
"""

import dataclasses
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    import pandas
    import pyarrow

T = TypeVar("T")


class Table:
    """An answer that holds rows, in the field that `_rows` names."""

    __slots__ = ()
    _rows: ClassVar[str]

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the rows as a pandas DataFrame.

        Raises:
            ImportError: pandas is not installed.
        """
        return pandas_of(*self._kind_and_rows())

    def to_arrow(self) -> "pyarrow.Table":
        """Return the rows as an Arrow table.

        Raises:
            ImportError: pyarrow is not installed.
        """
        return arrow_of(*self._kind_and_rows())

    def _kind_and_rows(self) -> tuple[type, Sequence[Any]]:
        return get_args(get_type_hints(type(self))[self._rows])[0], getattr(self, self._rows)


class Listing(Table, Iterator[T]):
    """The items of a list, read a page at a time; `to_pandas` and `to_arrow` read those that are left."""

    def __init__(self, kind: type[T], items: Generator[T, None, None]) -> None:
        self._kind = kind
        self._items = items

    def __next__(self) -> T:
        return next(self._items)

    def close(self) -> None:
        """Read no further pages."""
        self._items.close()

    def _kind_and_rows(self) -> tuple[type, Sequence[Any]]:
        return self._kind, list(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column.

    kind: int, float, bool, str or datetime; a tuple type for lists; Mapping for objects.
    is_optional: whether values may be None.
    value: row -> value.
    """

    name: str
    kind: Any
    is_optional: bool
    value: Callable[[T], Any]


def columns_of(kind: type[T]) -> list[Column[T]]:
    """Return the columns of a dataclass, in the order of its fields."""
    return list(_columns(kind, "", lambda row: row, is_optional=False))


def pandas_of(kind: type[T], rows: Iterable[T]) -> "pandas.DataFrame":
    """Return rows as a DataFrame; whole numbers that may be missing are Int64, times are UTC.

    Raises:
        ImportError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise _not_installed("to_pandas", "pandas") from error
    plain = {int: "int64", float: "float64", bool: "bool", str: "string"}
    nullable = {**plain, int: "Int64", bool: "boolean"}
    rows, series = list(rows), dict[str, Any]()
    for column in columns_of(kind):
        values = [column.value(row) for row in rows]
        if column.kind is datetime:
            series[column.name] = pandas.Series(pandas.to_datetime(values, utc=True))
        else:
            dtypes = nullable if column.is_optional else plain
            series[column.name] = pandas.Series(values, dtype=dtypes.get(column.kind, "object"))
    return pandas.DataFrame(series)


def arrow_of(kind: type[T], rows: Iterable[T]) -> "pyarrow.Table":
    """Return rows as an Arrow table; objects such as a journal entry's `changed`, and lists of them, are JSON text.

    Raises:
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise _not_installed("to_arrow", "pyarrow") from error
    types = {
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
        str: pyarrow.string(),
        datetime: pyarrow.timestamp("us", tz="UTC"),
    }
    rows, columns = list(rows), columns_of(kind)
    arrays, fields = [], []
    for column in columns:
        values = [column.value(row) for row in rows]
        if _is_text_in_arrow(column.kind):
            values, arrow_type = [None if value is None else _json_of(value) for value in values], pyarrow.string()
        elif column.kind in types:
            arrow_type = types[column.kind]
        else:
            arrow_type = pyarrow.list_(types[get_args(column.kind)[0]])
        arrays.append(pyarrow.array(values, arrow_type))
        fields.append(pyarrow.field(column.name, arrow_type, nullable=column.is_optional))
    return pyarrow.table(arrays, schema=pyarrow.schema(fields))


def _is_text_in_arrow(kind: Any) -> bool:
    return kind is Mapping or any(dataclasses.is_dataclass(item) for item in get_args(kind))


def _json_of(value: Any) -> str:
    return json.dumps(value, default=dataclasses.asdict)


def _columns(kind: Any, prefix: str, reach: Callable[[Any], Any], *, is_optional: bool) -> Iterator[Column[Any]]:
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        own, may_be_none = _without_none(hints[field.name])
        name, value = f"{prefix}{field.name}", _reader(reach, field.name)
        if dataclasses.is_dataclass(own):
            yield from _columns(own, f"{name}.", value, is_optional=is_optional or may_be_none)
        else:
            plain = Mapping if get_origin(own) is Mapping else own
            yield Column(name, plain, is_optional or may_be_none, value)


def _reader(reach: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def value(row: Any) -> Any:
        holder = reach(row)
        return None if holder is None else getattr(holder, name)

    return value


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was one of its values."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0], len(kinds) < len(get_args(hint))


def _not_installed(method: str, package: str) -> ImportError:
    extra = "arrow" if package == "pyarrow" else package
    what = f"{method}() needs {package}, which is not installed: pip install {package}"
    return ImportError(f"{what} (the client's extra [{extra}])", name=package)

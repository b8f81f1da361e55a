"""Tasks from the rows of a data file: the importer and the trainer compute the same ids from the same rows."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Literal, get_args

from bots_client._errors import InvalidRequestError
from bots_client._inputs import Task, shown

IdFrom = Literal["columns", "content", "row"]
Row = Mapping[str, Any]

SEPARATOR = ":"  # between the parts of an id, as in "openai/gsm8k:17"
HASH_LENGTH = 32  # hexadecimal digits, 128 bits: the probability of a collision in 10 million tasks is 1e-25
TAGS_COLUMN = "tags"  # its values are the tags themselves


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """The columns of a row from which a task is built.

    Dots lead into nested columns, as in "extra_info.index". A column's own name has precedence: "qwen2.5_7b_pass_rate"
    is found although it contains a dot.

    Args:
        id: one or several columns. With `id_from="columns"` their values, joined by ":", are the id.
        id_from: "columns"; "content", the hash of the columns' values, which stays the same when rows are shuffled or
            removed; or "row", the row's number from 0, which changes then, and needs no column.
        references: columns of pass rates, one per reference model, weakest first. A list of rewards in [0, 1] counts
            as its mean.
        tags: each value becomes the tag "COLUMN=VALUE", or VALUE if the column is called `tags`; a list gives several
            tags. Empty values give none.

    Raises:
        InvalidRequestError: `id_from` is invalid, or an argument that takes columns has none.
    """

    id: str | Sequence[str] = "id"
    id_from: IdFrom = "columns"
    references: Sequence[str] = ()
    tags: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.id_from not in get_args(IdFrom):
            raise InvalidRequestError(f"id_from is {self.id_from!r}, not one of {', '.join(get_args(IdFrom))}")
        for name in ("references", "tags"):
            if isinstance(getattr(self, name), str):
                raise InvalidRequestError(f"{name} is the str {getattr(self, name)!r}; pass a list of columns")
        if not self.id_columns and self.id_from != "row":
            raise InvalidRequestError("id has no column; pass one or several")

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns of the id; empty if the row's number is the id."""
        if self.id_from == "row":
            return ()
        return (self.id,) if isinstance(self.id, str) else tuple(self.id)

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are read, without repeats."""
        return tuple(dict.fromkeys((*self.id_columns, *self.references, *self.tags)))

    def id_of(self, row: Row, number: int = 0) -> str:
        """Return the id of a row's task.

        Args:
            row: column -> value, such as a row of a `datasets.Dataset` or a line of JSON.
            number: the row's number, from 0; the id if `id_from` is "row".

        Raises:
            InvalidRequestError: a column of the id is empty, or is neither text nor a whole number.
        """
        if self.id_from == "row":
            return str(number)
        if self.id_from == "content":
            return _hash_of(row, self.id_columns)
        return SEPARATOR.join(_part_of(value_at(row, column), column) for column in self.id_columns)

    def task(self, row: Row, number: int = 0) -> Task:
        """Return a row's task; the arguments are those of `id_of`.

        Raises:
            InvalidRequestError: there is no id, or a pass rate is not a number.
        """
        rates = [_rate_of(value_at(row, column), column) for column in self.references]
        tags = dict.fromkeys(tag for column in self.tags for tag in _tags_of(value_at(row, column), column))
        return Task(self.id_of(row, number), rates, list(tags))

    def tasks(self, rows: Iterable[Row], *, first: int = 0) -> Iterator[Task]:
        """Yield the task of each row.

        Args:
            rows: such as a `datasets.Dataset` or a list of dicts.
            first: number of the first row.

        Raises:
            InvalidRequestError: a row has no id, or a pass rate is not a number; the message has the row's number.
        """
        for number, row in enumerate(rows, first):
            try:
                yield self.task(row, number)
            except InvalidRequestError as error:
                raise InvalidRequestError(f"row {number}: {error}") from error


def value_at(row: Row, column: str) -> Any:
    """Return a row's value in a column; None if there is none.

    Args:
        row: column -> value; a value may be a nested row.
        column: a name, or names joined by dots; the longest existing name has precedence.
    """
    if column in row:
        return row[column]
    cut = len(column)
    while (cut := column.rfind(".", 0, cut)) > 0:
        inner = row.get(column[:cut])
        if isinstance(inner, dict | Mapping):
            return value_at(inner, column[cut + 1 :])
    return None


def _part_of(value: object, column: str) -> str:
    if isinstance(value, str) and value:
        return value
    if value is None or value == "":
        raise InvalidRequestError(f"the column {column} is empty or missing")
    if not isinstance(value, bool) and isinstance(value, int | Integral):
        return str(int(value))
    raise InvalidRequestError(f"{column} is {shown(value)}; an id must be text or a whole number")


def _hash_of(row: Row, columns: tuple[str, ...]) -> str:
    """Return the first 32 digits of the SHA-256 of the values as JSON: sorted keys, no blanks, no escapes."""
    values = [_plain(value_at(row, column), column) for column in columns]
    if all(value is None for value in values):
        raise InvalidRequestError(f"all columns of the id are empty or missing: {', '.join(columns)}")
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_LENGTH]


def _plain(value: Any, column: str) -> Any:
    """Return a value in a form that does not depend on the library: 1.0 is 1, an array is a list, empty is None."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):  # checked first: abstract base classes are slower
        return int(value) if value.is_integer() else value if value == value else None  # noqa: PLR0124 - NaN
    if isinstance(value, Mapping):
        plain = {str(name): _plain(inner, column) for name, inner in value.items()}
        return {name: inner for name, inner in plain.items() if inner is not None}
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real | Decimal):
        return _plain(float(value), column)
    if hasattr(value, "tolist"):  # numpy's
        return _plain(value.tolist(), column)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(inner, column) for inner in value]
    raise InvalidRequestError(f"{column} is {shown(value)}, not a text, number, list or mapping")


def _rate_of(value: Any, column: str) -> float | None:
    """Return a pass rate; None if it was not measured."""
    plain = _plain(value, column)
    if isinstance(plain, list):
        rewards = [reward for reward in plain if reward is not None]
        if not all(isinstance(reward, int | float) and 0 <= reward <= 1 for reward in rewards):
            raise InvalidRequestError(f"{column} is {shown(plain)}, not rewards in [0, 1]")
        return sum(rewards) / len(rewards) if rewards else None
    if plain is None:
        return None
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise InvalidRequestError(f"{column} is {shown(value)}, not a number")
    if abs(plain) > sys.float_info.max:  # JSON has no infinity, and null would mean "not measured"
        raise InvalidRequestError(f"{column} is {shown(plain)}, not a finite number")
    return plain


def _tags_of(value: Any, column: str) -> Iterator[str]:
    plain = _plain(value, column)
    for item in plain if isinstance(plain, list) else [plain]:
        if isinstance(item, dict | list):
            raise InvalidRequestError(f"{column} is {shown(plain)}; a tag is a text, a number or a list of them")
        if item not in (None, ""):
            text = json.dumps(item) if isinstance(item, bool) else str(item)
            yield text if column == TAGS_COLUMN else f"{column}={text}"

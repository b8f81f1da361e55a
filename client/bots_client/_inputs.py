"""What a program gives: tasks, of rows too, outcomes, settings and rewards, with checks before anything is sent.

A bug in the calling program is a TypeError, raised at the first call. Invalid content, such as a reward that is
not a number, is an InvalidRequestError.
"""

import hashlib
import json
import math
import re
import reprlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, TypedDict, TypeVar, get_args

from bots_client._errors import InvalidRequestError

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack  # noqa: PLC0414 - exported for the client
else:
    Unpack = dict  # for `typing.get_type_hints`; Python 3.10 has none

T = TypeVar("T")

ABORTED = (("status", "aborted"),)
SHAPED = ["successes", "trials", "rewards"]
MAX_REWARDS = 4096  # per outcome; the service's limit
FAILURES = (TypeError, ValueError, OverflowError, RuntimeError)  # the last is torch's, of a tensor with several numbers
IdFrom = Literal["columns", "content", "row"]
Row = Mapping[str, Any]

SEPARATOR = ":"  # between the parts of an id, as in "openai/gsm8k:17"
HASH_LENGTH = 32  # hexadecimal digits, 128 bits: the probability of a collision in 10 million tasks is 1e-25
TAGS_COLUMN = "tags"  # its values are the tags themselves

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
shown = _short.repr  # of a value, in an error


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a pool.

    reference_pass_rates: one per reference model of the dataset, in its order, in [0, 1]; None: not measured.
    tags: labels such as domain and level, for filters and mixes.
    """

    id: str
    reference_pass_rates: Sequence[float | None] = ()
    tags: Sequence[str] = ()

    def as_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"id": checked(self.id, str, "id")}
        if len(self.reference_pass_rates):
            wire["reference_pass_rates"] = [None if rate is None else plain(rate) for rate in self.reference_pass_rates]
        if len(self.tags):
            wire["tags"] = checked_list(self.tags, str, f"tags of task {self.id}")
        return wire


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one task's rollouts: counts, rewards or both, or aborted.

    Create it with `Outcome.counts`, `Outcome.rewards` or `Outcome.aborted`.

    A rollout whose reward is None, NaN or infinite is left out, and the others count. Without others the outcome is
    aborted. `left_out` says how many are; only the client counts them.

    What the ways to create one have in common:
        effective: whether the group gives a gradient; None: if its rewards differ, or without them some trials fail.
        tokens, seconds: what all its rollouts cost: the tokens that they generated, and the accelerator seconds that
            they took, one for each accelerator in each second. None: not known.
        group_size: number of rollouts of the whole group, if these are a part of it that ends far from the others. The
            group then counts once, when all have come; a rollout that is left out is one of them. None: they are all.
    """

    task: str
    evidence: tuple[tuple[str, Any], ...]
    cost: tuple[tuple[str, float], ...] = ()
    left_out: int = 0
    group_size: int | None = None

    @classmethod
    def counts(
        cls,
        task: str,
        successes: SupportsFloat,
        trials: SupportsFloat,
        *,
        rewards: Iterable[SupportsFloat | None] | SupportsFloat | None = None,
        effective: bool | None = None,
        tokens: SupportsFloat | None = None,
        seconds: SupportsFloat | None = None,
        group_size: int | None = None,
    ) -> "Outcome":
        """Return an outcome with the number of successes and trials.

        Args:
            successes: number of rollouts that met the task's own criterion; the belief learns from it.
            trials: number of rollouts, at most 4096.
            rewards: the trainer's rewards, one per trial, of any range; they only decide whether the task is effective.
                Those that are left out are no trials.
        """
        counts = (("successes", plain(successes, of=task)), ("trials", plain(trials, of=task)))
        return cls._made(task, counts, rewards, effective, tokens=tokens, seconds=seconds, group_size=group_size)

    @classmethod
    def rewards(
        cls,
        task: str,
        rewards: Iterable[SupportsFloat | None] | SupportsFloat | None,
        *,
        effective: bool | None = None,
        tokens: SupportsFloat | None = None,
        seconds: SupportsFloat | None = None,
        group_size: int | None = None,
    ) -> "Outcome":
        """Return an outcome with the reward of each rollout, in the run's reward range; the belief learns from them.

        Each counts as a fraction of a success. A single number is that of one rollout.
        """
        given = [None] if rewards is None else rewards
        return cls._made(task, (), given, effective, tokens=tokens, seconds=seconds, group_size=group_size)

    @classmethod
    def _made(
        cls,
        task: str,
        counts: tuple[tuple[str, int | float], ...],
        rewards: Any,
        effective: bool | None,
        *,
        group_size: int | None,
        **cost: SupportsFloat | None,
    ) -> "Outcome":
        evidence, left_out = dict[str, Any](counts), 0
        checked(task, str, "task")
        if rewards is not None:
            kept, left_out = _usable(task, rewards)
            if left_out and not kept:
                return cls(task, ABORTED, _cost(task, **cost), left_out, group_size)
            evidence["rewards"] = kept
        if left_out and counts:
            evidence["trials"] -= left_out
        if effective is not None:
            if effective not in (True, False):  # `in` also accepts numpy's booleans
                raise InvalidRequestError(f"task {task}: effective must be True or False, got {effective!r}")
            evidence["effective"] = bool(effective)
        return cls(task, tuple(evidence.items()), _cost(task, **cost), left_out, group_size)

    @classmethod
    def aborted(
        cls, task: str, *, tokens: SupportsFloat | None = None, seconds: SupportsFloat | None = None
    ) -> "Outcome":
        """Return the outcome of a task whose rollouts did not finish: its lease ends, and nothing is learned."""
        return cls(checked(task, str, "task"), ABORTED, _cost(task, tokens=tokens, seconds=seconds))

    @property
    def is_aborted(self) -> bool:
        """Whether the rollouts did not finish, so that nothing is learned."""
        return self.evidence == ABORTED

    def as_wire(self) -> dict[str, Any]:
        wire = {"task": self.task, **dict(self.evidence), **dict(self.cost)}
        if self.group_size is not None:
            wire["group_size"] = self.group_size
            wire.pop("status", None)
            if self.left_out:  # the service counts them among the group's rollouts
                wire["rewards"] = [*wire.get("rewards", ()), *[None] * self.left_out]
        return wire

    @property
    def rollouts(self) -> float:
        """Number of its rollouts, with those that are left out."""
        evidence = dict(self.evidence)
        return float(evidence.get("trials", len(evidence.get("rewards", ())))) + self.left_out


def wires_of_tasks(tasks: Iterable[Task]) -> list[dict[str, Any]]:
    return [task.as_wire() for task in checked_list(tasks, Task, "tasks")]


def joined(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Merge each group's outcomes that have counts and rewards, so that all its rewards are compared together.

    Other outcomes need no merging: the service adds their counts. Outcomes that say their cost stay apart from
    others: a cost is that of all rollouts of its outcome. A rollout that broke does not abort the rest of its group.
    """
    listed = list(outcomes)
    shown = {outcome.task for outcome in listed if not outcome.is_aborted}
    whole: dict[tuple[str | int | None, ...] | int, Outcome] = {}
    left_out = 0
    for place, outcome in enumerate(listed):
        is_part = outcome.group_size is not None
        if outcome.is_aborted and outcome.left_out and not outcome.cost and outcome.task in shown and not is_part:
            left_out += outcome.left_out
            continue
        key = (outcome.task, outcome.group_size, *(name for name, _ in outcome.cost))
        earlier = whole.get(key)
        if [name for name, _ in outcome.evidence] != SHAPED:
            whole[place] = outcome
        elif earlier is None:
            whole[key] = outcome
        else:
            evidence, cost = _added(earlier.evidence, outcome.evidence), _added(earlier.cost, outcome.cost)
            left = earlier.left_out + outcome.left_out
            sums = Outcome(outcome.task, evidence, cost, left, outcome.group_size)
            fits = len(dict(sums.evidence)["rewards"]) <= MAX_REWARDS
            whole[key if fits else place] = sums if fits else outcome
    merged = list(whole.values())
    if left_out:  # of tasks that others here show, so there is one
        merged[0] = replace(merged[0], left_out=merged[0].left_out + left_out)
    return merged


def _added(ones: tuple[tuple[str, Any], ...], others: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, one + other) for (name, one), (_, other) in zip(ones, others, strict=True))


def _usable(task: str, rewards: Any) -> tuple[tuple[int | float, ...], int]:
    """Return the rewards of those rollouts that have one, and how many are left out."""
    try:
        given = rewards_of(rewards, f"rewards of task {task}")
    except ValueError as error:
        raise InvalidRequestError(f"task {task}: {error}") from error
    kept = tuple(plain(reward) for reward in given if reward is not None)
    return kept, len(given) - len(kept)


def _cost(task: str, **given: SupportsFloat | None) -> tuple[tuple[str, float], ...]:
    return tuple((name, plain(value, of=task)) for name, value in given.items() if value is not None)


class GivenSettings(TypedDict, total=False):
    """Any of the settings of a run; see `Settings`."""

    belief: str
    forgetting: float
    implicit_weight: float
    rollouts_per_task: float | None
    target: float
    prior: tuple[float, float]
    capability: str
    capability_momentum: float
    strategy: str
    seed: int
    tasks_per_step: int | None
    reward_range: tuple[float, float]
    lease_seconds: float
    mix: Mapping[str, float]


def plain(number: SupportsFloat, *, of: str = "") -> int | float:
    """Return any kind of number, such as numpy's, as an int if it is whole, otherwise as a float.

    An InvalidRequestError if it is not a finite number.
    """
    where = f"task {of}: " if of else ""
    try:
        value = float(number)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"{where}{number!r} is not a number") from error
    if not math.isfinite(value):
        raise InvalidRequestError(f"{where}{value} is not a finite number")
    return int(value) if value.is_integer() else value


def reward_of(value: Any) -> float | None:
    """Return a rollout's reward, such as a tensor with one element on any device, as a number.

    None for None, NaN and infinite ones, so that the rollout is left out. A ValueError if it is not a number.
    """
    if value is None:
        return None
    try:
        number = float(value.item() if hasattr(value, "item") else value)
    except FAILURES as error:
        raise ValueError(f"{value!r:.80} is not a number") from error
    return number if math.isfinite(number) else None


def rewards_of(rewards: Any, name: str = "rewards") -> list[float | None]:
    """Return the reward of each rollout, as `reward_of` does; a single number is that of one rollout.

    rewards: a list, an array or a tensor; a TypeError if it is a str or a mapping.
    name: what to call them in an error.
    """
    values = rewards.tolist() if hasattr(rewards, "tolist") else rewards  # from an accelerator's memory at once
    if isinstance(values, str | bytes | Mapping):
        raise wrong_type(name, "a list of numbers", values)
    try:
        listed = list(values)
    except TypeError:
        listed = [values]
    return [reward_of(value) for value in listed]


def wrong_type(name: str, expected: str, value: object) -> TypeError:
    got = "None" if value is None else f"the {type(value).__name__} {shown(value)}"
    return TypeError(f"{name}: expected {expected}, got {got}")


def checked(value: T, kind: type[T], name: str) -> T:
    """Return the value; a TypeError if it is of another kind."""
    if not isinstance(value, kind):
        raise wrong_type(name, kind.__name__, value)
    return value


def checked_number(value: Any, name: str) -> Any:
    """Return the value, a number of any library; a TypeError for anything else, such as a str of digits."""
    if isinstance(value, str | bytes | bool) or not hasattr(value, "__float__"):
        raise wrong_type(name, "a number", value)
    return value


def checked_list(values: Iterable[T], kind: type[T], name: str) -> list[T]:
    """Return an iterable as a list; a TypeError if an item is of another kind, or if it is a single str."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise wrong_type(name, f"a list of {kind.__name__}", values)
    return [checked(value, kind, f"{name}[{place}]") for place, value in enumerate(values)]


def checked_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of a trainer's tasks as a tuple; a ValueError if there are none, or one is repeated."""
    listed = checked_list(ids, str, "ids")
    if not listed:
        raise ValueError("ids is empty; pass the ids of all tasks that the trainer has")
    known = set[str]()
    for task in listed:
        if task in known:
            raise ValueError(f"ids contains {task!r} twice; give each task its own id")
        known.add(task)
    return tuple(listed)


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """The columns of a row from which a task is built.

    Dots lead into nested columns, as in "extra_info.index". A column's own name has precedence: "qwen2.5_7b_pass_rate"
    is found although it contains a dot.

    Args:
        id: one or several columns. With `id_from="columns"` their values, joined by ":", are the id.
        id_from: "columns"; "content", the hash of the columns' values, which stays the same when rows are shuffled or
            removed; or "row", the row's number from 0, which changes then, and needs no column.
        references: columns of pass rates, one per reference model, weakest first: names of columns that hold rates, or
            `ReferenceColumn`s, which `find_references` returns of columns that others published.
        tags: each value becomes the tag "COLUMN=VALUE", or VALUE if the column is called `tags`; a list gives several
            tags. Empty values give none.

    Raises InvalidRequestError: `id_from` is invalid, or an argument that takes columns has none.
    """

    id: str | Sequence[str] = "id"
    id_from: IdFrom = "columns"
    references: Sequence["str | ReferenceColumn"] = ()
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
        references = (reference.column for reference in map(_reference, self.references))
        return tuple(dict.fromkeys((*self.id_columns, *references, *self.tags)))

    @property
    def models(self) -> tuple[str, ...]:
        """What the reference models are called: see `ReferenceColumn.name`."""
        return tuple(reference.name for reference in map(_reference, self.references))

    def id_of(self, row: Row, number: int = 0) -> str:
        """Return the id of a row's task.

        Args:
            row: column -> value, such as a row of a `datasets.Dataset` or a line of JSON.
            number: the row's number, from 0; the id if `id_from` is "row".

        Raises InvalidRequestError: a column of the id is empty, or is neither text nor a whole number.
        """
        if self.id_from == "row":
            return str(number)
        if self.id_from == "content":
            return _hash_of(row, self.id_columns)
        return SEPARATOR.join(_part_of(value_at(row, column), column) for column in self.id_columns)

    def task(self, row: Row, number: int = 0) -> Task:
        """Return a row's task; an InvalidRequestError if there is no id, or a pass rate is not a number."""
        rates = [_reference(column).rate(row) for column in self.references]
        tags = dict.fromkeys(tag for column in self.tags for tag in _tags_of(value_at(row, column), column))
        return Task(self.id_of(row, number), rates, list(tags))

    def tasks(self, rows: Iterable[Row], *, first: int = 0) -> Iterator[Task]:
        """Yield the task of each row, of which the first has the number `first`.

        An InvalidRequestError has the number of a row without an id, or with a pass rate that is not a number.
        """
        for number, row in enumerate(rows, first):
            try:
                yield self.task(row, number)
            except InvalidRequestError as error:
                raise InvalidRequestError(f"row {number}: {error}") from error


def value_at(row: Row, column: str) -> Any:
    """Return a row's value in a column, or in a nested row by names joined by dots; None if there is none.

    The longest existing name has precedence.
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


# --- pass rates that others measured ----------------------------------------------------------------------------------

NOT_MEASURED = {"", "#N/A", "N/A", "NA", "NULL", "NaN", "nan", "n/a", "null"}  # in texts, as of CSV
SOLVED_OF_TRIED = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", re.ASCII)
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.ASCII | re.IGNORECASE)
SAYS_SOLVED = re.compile(r"(?<![a-z])(pass|solve|success)[ _-]?rate(?![a-z])|pass@1(?!\d)", re.IGNORECASE)
SAYS_DIFFICULT = re.compile("difficulty", re.IGNORECASE)
SAYS_OTHER = re.compile(r"(?<![a-z])(std|stderr|var|rank|count|num|confidence|level)(?![a-z])", re.IGNORECASE)
TRIES = 16  # of each of Skywork-OR1's three models, which count failures in `model_difficulty`


@dataclass(frozen=True)
class ReferenceColumn:
    """A column with what one reference model reached on each task.

    A number x counts as x / out_of solved; as 1 - x / out_of where it grows with what the model fails. A text such as
    "3/8" is solved of tried. A list of rewards in [0, 1] counts as its mean.

    column: its name; dots lead into nested columns.
    out_of: 1 for rates, 100 for percentages, the number of tries for counts.
    is_failure: whether the numbers are of failures, or a difficulty.
    """

    column: str
    out_of: float = 1.0
    is_failure: bool = False

    @staticmethod
    def may_be(column: str) -> bool:
        """Return whether a column of this name may hold published pass rates."""
        return bool(SAYS_SOLVED.search(column) or SAYS_DIFFICULT.search(column)) and not SAYS_OTHER.search(column)

    def __str__(self) -> str:
        scaled = "value" if self.out_of == 1 else f"value / {self.out_of:g}"
        return f"1 - {scaled}" if self.is_failure else scaled

    @property
    def name(self) -> str:
        """What the reference model is called: the column, and how it is read unless as it stands."""
        return self.column if self == ReferenceColumn(self.column) else f"{self.column}: {self}"

    def rate(self, row: Row) -> float | None:
        """Return the pass rate in a row; None: not measured. Raises InvalidRequestError: the column holds none."""
        value = _plain(value_at(row, self.column), self.column)
        if isinstance(value, list):
            rewards = [reward for reward in value if reward is not None]
            if not all(isinstance(reward, int | float) and 0 <= reward <= 1 for reward in rewards):
                raise InvalidRequestError(f"{self.column} is {shown(value)}, not rewards in [0, 1]")
            return sum(rewards) / len(rewards) if rewards else None
        if not _is_measured(value):
            return None
        if isinstance(value, str) and (solved := SOLVED_OF_TRIED.fullmatch(value)):
            rate = int(solved[1]) / int(solved[2]) if int(solved[2]) else math.nan
        elif (number := _number(value)) is not None:
            rate = 1 - number / self.out_of if self.is_failure else number / self.out_of
        else:
            raise InvalidRequestError(f"{self.column} is {shown(value)}, not a number")
        if not 0 <= rate <= 1:
            raise InvalidRequestError(f"{self.column} is {shown(value)}, read as {self}: no pass rate in [0, 1]")
        return rate

    def preview(self, rows: Iterable[Row], count: int = 5) -> str:
        """Return the first values and what they are read as, such as "43.75 -> 0.5625, 100.0 -> 0"."""
        read = ((value_at(row, self.column), self.rate(row)) for row in rows)
        return ", ".join(islice((f"{value} -> {rate:.4g}" for value, rate in read if rate is not None), count))


def find_references(
    rows: Iterable[Row], *, but_not: Sequence[str] = (), unclear: dict[str, str] | None = None
) -> list[ReferenceColumn]:
    """Return the columns that hold published pass rates, by their names and values, weakest model first.

    A name says "pass rate", "solve rate", "success rate" or "difficulty". All values must fit one form: rates,
    percentages, texts such as "3/8"; of difficulties also Skywork-OR1's counts of failures. What may as well be
    something else, such as levels from 1 to 10, is left out.

    Args:
        rows: some rows of the file; a thousand are enough.
        but_not: columns that hold something else.
        unclear: gets the other columns of such names, and why each is left out.
    """
    rows, means = list(rows), dict[ReferenceColumn, float]()
    for column in dict.fromkeys(name for row in rows for name in _leaves(row)):
        if column in but_not or not ReferenceColumn.may_be(column):
            continue
        try:
            values = [value for row in rows if _is_measured(value := _plain(value_at(row, column), column))]
            reading = _reading(column, values)
            rates = [rate for row in rows if (rate := reading.rate(row)) is not None]
            means[reading] = sum(rates) / len(rates)
        except InvalidRequestError as error:
            if unclear is not None:
                unclear[column] = str(error)
    return sorted(means, key=means.__getitem__)


def _reading(column: str, values: list[Any]) -> ReferenceColumn:
    """Return how a column's values are read. Raises InvalidRequestError: that is not clear."""
    if len({*map(repr, values)}) < 2:
        raise InvalidRequestError(f"{column} never differs")
    if all(isinstance(value, str) and SOLVED_OF_TRIED.fullmatch(value) for value in values):
        return ReferenceColumn(column)
    numbers = [number for value in values if (number := _number(value)) is not None]
    if len(numbers) < len(values):
        strange = next(value for value in values if _number(value) is None)
        raise InvalidRequestError(f"{column} is {shown(strange)}, not a number as others are")
    most, are_whole = max(numbers), all(number.is_integer() for number in numbers)
    if SAYS_SOLVED.search(column):
        if most <= 1:
            return ReferenceColumn(column)
        if most > (64 if are_whole else 1) and 10 * sum(0 < number < 1 for number in numbers) < len(numbers):
            return ReferenceColumn(column, 100.0)
        raise InvalidRequestError(f"{column} goes up to {most:g}: counts of how many tries?")
    if are_whole and "model_difficulty" in column.lower() and 10 < most <= TRIES:
        return ReferenceColumn(column, TRIES, is_failure=True)
    if not are_whole and (most <= 1 or most > 20):
        return ReferenceColumn(column, 1.0 if most <= 1 else 100.0, is_failure=True)
    raise InvalidRequestError(f"{column} goes up to {most:g}: levels, it seems, which are tags")


def _leaves(row: Row, prefix: str = "") -> Iterator[str]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _reference(column: "str | ReferenceColumn") -> ReferenceColumn:
    return ReferenceColumn(column) if isinstance(column, str) else column


def _is_measured(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and value in NOT_MEASURED)


def _number(value: Any) -> float | None:
    """Return a finite number, or a text as CSV has it, as a float; None of anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        value = float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else math.nan
    return float(value) if abs(value) <= sys.float_info.max else None


def _tags_of(value: Any, column: str) -> Iterator[str]:
    plain = _plain(value, column)
    for item in plain if isinstance(plain, list) else [plain]:
        if isinstance(item, dict | list):
            raise InvalidRequestError(f"{column} is {shown(plain)}; a tag is a text, a number or a list of them")
        if item not in (None, ""):
            text = json.dumps(item) if isinstance(item, bool) else str(item)
            yield text if column == TAGS_COLUMN else f"{column}={text}"

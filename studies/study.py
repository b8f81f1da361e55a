"""A study: a question, the trials that answer it, and the tables that show them."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from studies.trial import Measures

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """What is tried once for each seed.

    labels: a value for each label column of the study; together they name the cell.
    trial: make one trial of a seed, from 0, in full or in its quick form of a few steps. A function of a module, or a
        `functools.partial` of one: another process runs it.
    """

    labels: Labels
    trial: Callable[[int, bool], Measures]


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """Return the first cell of each set of labels."""
    return list({label_key(cell.labels): cell for cell in reversed(list(cells))}.values())[::-1]


def label_key(labels: Labels) -> str:
    """Return labels as one string, whatever their order."""
    return json.dumps(labels, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column that compares a cell's results with a baseline's.

    heading: of the column.
    baseline: the labels that make a cell its baseline's.
    shown: what stands there, from the measures of each seed and the baseline's of the same seed.
    """

    heading: str
    baseline: Labels
    shown: Callable[[Sequence[tuple[dict[str, Any], dict[str, Any]]]], str]


@dataclass(frozen=True, slots=True)
class StudyTable:
    """A table: a row for each cell, with 95 % intervals over seeds.

    Rows are in the order of the study's cells, but a column of numbers is in theirs.

    name: unique in the study; a page shows it at `<!-- study: STUDY NAME -->`.
    columns: the labels it shows, in order.
    measures: what it shows of each; names of `Measures`, of `tables.MEASURES`, or of `Measures.extra`.
    where: only cells with these labels, each one of the given values; empty: all.
    baseline: the labels that make a cell its baseline's: where given, each measure is followed by its difference from
        the baseline, seed by seed.
    across: a label that has a column for each of its values instead, of the one measure; its values are then means.
    comparisons: further columns.
    """

    name: str
    columns: tuple[str, ...]
    measures: tuple[str, ...]
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    baseline: Labels | None = None
    across: str | None = None
    comparisons: tuple[Comparison, ...] = ()

    def shows(self, labels: Labels) -> bool:
        """Return whether a cell is a row of this table."""
        return all(labels[column] in values for column, values in self.where.items())


@dataclass(frozen=True, slots=True)
class StudyChart:
    """A chart of means with 95 % intervals: docs/studies/STUDY-NAME.svg.

    x: a label with numbers; or "step", for the course of a measure kept every 20 steps.
    y: a measure, as in `StudyTable.measures`; with x "step" `accuracy` or `effective_groups`.
    lines: the labels whose values tell the lines apart.
    panels: the label whose values each have a panel; None: there is one.
    """

    name: str
    title: str
    x: str
    y: str
    lines: tuple[str, ...]
    panels: str | None = None
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def shows(self, labels: Labels) -> bool:
        """Return whether a cell is part of this chart."""
        return all(labels[column] in values for column, values in self.where.items())


@dataclass(frozen=True, slots=True)
class Study:
    """One question.

    name: one lower-case word: its page is docs/studies/NAME.md.
    title: the question.
    claim: the answer, as the page gives it: a sentence.
    cells: what is tried.
    tables, charts: how it is shown.
    """

    name: str
    title: str
    claim: str
    cells: tuple[Cell, ...]
    tables: tuple[StudyTable, ...]
    charts: tuple[StudyChart, ...] = ()

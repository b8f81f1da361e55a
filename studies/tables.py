"""Tables in Markdown of what trials showed, with 95 % intervals."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from statistics import fmean, stdev

from scipy.stats import t as student

from studies.results import Measured, Result
from studies.study import Cell, Comparison, Labels, Study, StudyTable, label_key


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and half the width of its 95 % interval by Student's t; NaN where one value says nothing of it."""

    mean: float
    half_width: float

    def shown(self, digits: int, *, signed: bool = False) -> str:
        """Return it as 0.784 ± 0.005; as 0.784 where no interval is known, or none is needed: all values are equal."""
        mean = f"{self.mean:+.{digits}f}" if signed else f"{self.mean:.{digits}f}"
        return mean if isnan(self.half_width) or self.half_width == 0 else f"{mean} ± {self.half_width:.{digits}f}"


def interval_of(values: Sequence[float]) -> Interval:
    """Return the interval of the mean of independent values."""
    if len(values) == 1:
        return Interval(values[0], nan)
    quantile = float(student.ppf(0.975, len(values) - 1))
    return Interval(fmean(values), quantile * stdev(values) / sqrt(len(values)))


@dataclass(frozen=True, slots=True)
class ShownMeasure:
    """How a measure is shown: its heading, its value in a result, and its digits after the point."""

    heading: str
    value: Callable[[Measured], float | None]
    digits: int = 3


def _plain(name: str) -> Callable[[Measured], float | None]:
    return lambda measured: measured[name]


def _per_step(name: str) -> Callable[[Measured], float]:
    return lambda measured: 1e3 * measured[name] / measured["steps"]


MEASURES: dict[str, ShownMeasure] = {
    "effective_task_ratio": ShownMeasure("ETR", _plain("effective_task_ratio")),
    "pool_log_loss": ShownMeasure("pool log loss", _plain("pool_log_loss")),
    "calibration_slope": ShownMeasure("calibration slope", _plain("calibration_slope"), 2),
    "last_chosen": ShownMeasure("chosen success, last quarter", lambda measured: measured["chosen_success"][1]),
    "distinct_tasks": ShownMeasure("distinct tasks", _plain("distinct_tasks"), 0),
    "reference_rollouts": ShownMeasure(
        "rollouts of references", lambda measured: measured["extra"].get("reference_rollouts"), 0
    ),
    "last_accuracy": ShownMeasure("accuracy at the end", lambda measured: measured["accuracy"][-1]),
    "select_ms": ShownMeasure("select, ms a step", _per_step("select_seconds"), 2),
    "report_ms": ShownMeasure("report, ms a step", _per_step("report_seconds"), 2),
}


def measure_named(name: str) -> ShownMeasure:
    """Return how a measure is shown; one that is not known here is an extra of its study."""
    return MEASURES.get(name) or ShownMeasure(name.replace("_", " "), lambda measured: measured["extra"].get(name))


Groups = dict[str, list[Result]]  # results by the key of their labels, each by rising seed


def grouped(results: Iterable[Result]) -> Groups:
    """Return the results of one study by cell, in the order of their first."""
    groups: Groups = {}
    for result in results:
        groups.setdefault(label_key(result.labels), []).append(result)
    return {key: sorted(group, key=lambda one: one.seed) for key, group in groups.items()}


def values_of(group: Sequence[Result], measure: str) -> list[float] | None:
    """Return a measure of each seed; None where it does not apply."""
    shown = measure_named(measure)
    found = [shown.value(result.measures) for result in group]
    values = [value for value in found if value is not None]
    return values if values and len(values) == len(found) else None


def difference_of(group: Sequence[Result], baseline: Sequence[Result], measure: str) -> Interval | None:
    """Return a measure less the baseline's, paired by seed; None where one of them has it not."""
    of_seed = {result.seed: result for result in baseline}
    pairs = [(result, of_seed[result.seed]) for result in group if result.seed in of_seed]
    if not pairs:
        return None
    ours = values_of([one for one, _ in pairs], measure)
    theirs = values_of([other for _, other in pairs], measure)
    if ours is None or theirs is None:
        return None
    return interval_of([one - other for one, other in zip(ours, theirs, strict=True)])


def rendered(study: Study, table: StudyTable, results: Iterable[Result]) -> str:
    """Return one table of a study in Markdown; `results` are of this study."""
    groups = grouped(results)
    if table.across is not None:
        return _across(study, table, groups, table.across)
    has_baseline = table.baseline is not None
    heads = [*table.columns]
    for name in table.measures:
        heads += [measure_named(name).heading, *(["difference"] if has_baseline else [])]
    heads += [comparison.heading for comparison in table.comparisons]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(table.columns)}{'---:|' * (len(heads) - len(table.columns))}"]
    for cell in shown_cells(study, table):
        group = groups.get(label_key(cell.labels))
        if group:
            lines.append(f"| {' | '.join(_row(table, cell.labels, group, groups))} |")
    return "\n".join(lines)


def shown_cells(study: Study, table: StudyTable) -> list[Cell]:
    """Return a table's cells in the order of its rows: numbers by size, others as the study first has them."""
    cells = [cell for cell in study.cells if table.shows(cell.labels)]
    columns = [*table.columns, *([table.across] if table.across else [])]
    are_numbers = [all_numbers(cell.labels[column] for cell in cells) for column in columns]
    first: dict[tuple[str, ...], float] = {}  # where labels, and those in the columns before them, first come
    for place, cell in enumerate(cells):
        for end in range(1, len(columns) + 1):
            first.setdefault(tuple(cell.labels[column] for column in columns[:end]), place)

    def key(cell: Cell) -> list[float]:
        values = [cell.labels[column] for column in columns]
        return [
            float(value) if is_number else first[(*values[:place], value)]
            for place, (value, is_number) in enumerate(zip(values, are_numbers, strict=True))
        ]

    return sorted(cells, key=key)


def all_numbers(values: Iterable[str]) -> bool:
    """Return whether all values of a label are numbers."""
    return all(value.replace(".", "", 1).isdecimal() for value in values)


def in_label_order(values: Iterable[str]) -> list[str]:
    """Return distinct values of a label in their order: numbers by size, others as they first came."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct, key=float) if all_numbers(distinct) else distinct


def _row(table: StudyTable, labels: Labels, group: list[Result], groups: Groups) -> list[str]:
    cells = [labels[column] for column in table.columns]
    baseline = groups.get(label_key({**labels, **table.baseline})) if table.baseline is not None else None
    for name in table.measures:
        values, digits = values_of(group, name), measure_named(name).digits
        cells.append("" if values is None else interval_of(values).shown(digits))
        if table.baseline is not None:
            difference = None if baseline is None or baseline is group else difference_of(group, baseline, name)
            cells.append("" if difference is None else difference.shown(digits, signed=True))
    cells += [compared(group, groups.get(label_key({**labels, **one.baseline})), one) for one in table.comparisons]
    return cells


def _across(study: Study, table: StudyTable, groups: Groups, across: str) -> str:
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    shown, (measure,) = measure_named(table.measures[0]), table.measures
    for cell in shown_cells(study, table):
        values = values_of(groups.get(label_key(cell.labels), []), measure)
        if values is not None:
            row = rows.setdefault(tuple(cell.labels[column] for column in table.columns), {})
            row[cell.labels[across]] = interval_of(values).shown(shown.digits).partition(" ")[0]
    columns = in_label_order(value for row in rows.values() for value in row)
    heads = [*table.columns, *(f"{across} {value}" if all_numbers(columns) else value for value in columns)]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(table.columns)}{'---:|' * len(columns)}"]
    lines += [f"| {' | '.join([*name, *(row.get(value, '') for value in columns)])} |" for name, row in rows.items()]
    return "\n".join(lines)


def compared(group: Sequence[Result], baseline: Sequence[Result] | None, comparison: Comparison) -> str:
    """Return what a comparison shows of the seeds that both have; nothing of the baseline itself."""
    if baseline is None or baseline is group:
        return ""
    of_seed = {result.seed: result.measures for result in baseline}
    pairs = [(result.measures, of_seed[result.seed]) for result in group if result.seed in of_seed]
    return comparison.shown(pairs) if pairs else ""


def all_tables(study: Study, results: Iterable[Result]) -> str:
    """Return all tables of a study, each under its name."""
    found = [result for result in results if result.study == study.name]
    parts = [f"{study.name}: {study.title}"]
    parts += [f"{table.name}\n\n{rendered(study, table, found)}" for table in study.tables]
    return "\n\n".join(parts)

"""What trials showed, as lines of JSON: one a trial as it ends, one a cell where the repository keeps them."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studies.study import Cell, Labels, Study, label_key

Measured = dict[str, Any]  # `Measures.as_dict()`


@dataclass(frozen=True, slots=True)
class Result:
    """What one trial showed.

    study: its name.
    labels: of its cell.
    seed: of the trial.
    measures: as `Measures.as_dict` gives them.
    """

    study: str
    labels: Labels
    seed: int
    measures: Measured

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from all others."""
        return self.study, label_key(self.labels), self.seed

    def line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":")) + "\n"


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial to be made."""

    study: str
    cell: Cell
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from all others: that of its result."""
        return self.study, label_key(self.cell.labels), self.seed

    def made(self, *, quick: bool) -> Result:
        """Make the trial."""
        measures = self.cell.trial(self.seed, quick)
        return Result(self.study, self.cell.labels, self.seed, measures.as_dict())


def planned(studies: Iterable[Study], *, seeds: int) -> list[Trial]:
    """Return all trials, each seed of every cell before the next seed, so that tables fill evenly."""
    each = [(study.name, cell) for study in studies for cell in study.cells]
    return [Trial(name, cell, seed) for seed in range(seeds) for name, cell in each]


def in_order(results: Iterable[Result], studies: Iterable[Study]) -> list[Result]:
    """Return the results of these studies' cells, in the order of cells, then of seeds."""
    place = {
        (study.name, label_key(cell.labels)): (number, at)
        for number, study in enumerate(studies)
        for at, cell in enumerate(study.cells)
    }
    known = [one for one in results if one.key[:2] in place]
    return sorted(known, key=lambda one: (*place[one.key[:2]], one.seed))


def read_results(paths: Iterable[Path]) -> Iterator[Result]:
    """Yield the results of files; a last line that a stopped run left unfinished is skipped."""
    for path in paths:
        for line in path.read_text("utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield Result(**json.loads(line))


KEPT = Path(__file__).parent / "results"  # a file for each commit at which studies were made


def keep(results: Iterable[Result], path: Path) -> None:
    """Write results with one line for each cell: names once, and of each measure the values of all seeds.

    Values that are equal for all seeds are written once: of a recorded pool, the whole course of its accuracy.
    """
    cells: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        cells[result.key[:2]].append(result)
    lines = []
    for group in cells.values():
        first, seeds = group[0], [result.seed for result in group]
        columns = {name: _once([result.measures[name] for result in group]) for name in first.measures}
        line = {"study": first.study, "labels": first.labels, "seeds": seeds, "measures": columns}
        lines.append(json.dumps(line, separators=(",", ":")) + "\n")
    path.write_text("".join(lines), "utf-8")


def _once(values: list[Any]) -> list[Any]:
    return values[:1] if all(value == values[0] for value in values) else values


def kept(folder: Path = KEPT) -> list[Result]:
    """Return all results that are kept."""
    results = []
    for path in sorted(folder.glob("*.ndjson")):
        for line in path.read_text("utf-8").splitlines():
            cell = json.loads(line)
            for place, seed in enumerate(cell["seeds"]):
                measures = {name: values[place % len(values)] for name, values in cell["measures"].items()}
                results.append(Result(cell["study"], cell["labels"], seed, measures))
    return results


def replace_kept(results: list[Result], name: str, folder: Path = KEPT) -> None:
    """Keep results as those of a commit, instead of what was kept of the same studies."""
    studies = {result.study for result in results}
    folder.mkdir(exist_ok=True)
    for path in sorted(folder.glob("*.ndjson")):
        lines = path.read_text("utf-8").splitlines(keepends=True)
        others = [line for line in lines if json.loads(line)["study"] not in studies]
        if others:
            path.write_text("".join(others), "utf-8")
        else:
            path.unlink()
    path = folder / f"{name}.ndjson"
    others_here = path.read_text("utf-8") if path.exists() else ""
    keep(results, path)
    path.write_text(path.read_text("utf-8") + others_here, "utf-8")

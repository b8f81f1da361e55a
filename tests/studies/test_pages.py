"""The pages of the studies, and README's table of evidence, show what the kept results say, of every cell."""

import json
from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from studies.catalogue import STUDIES
from studies.evidence import ROWS, Studied, Trained, evidence_table
from studies.pages import MARKED, PAGES, all_pages, draw_all, filled
from studies.results import kept
from studies.study import label_key

KEPT = kept()
FEWEST_SEEDS = 10
MADE_ALREADY = sorted({result.study for result in KEPT})


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: f"{page.parent.name}/{page.name}")
def test_a_page_shows_what_was_kept(page: Path):
    text = page.read_text("utf-8")
    assert filled(text, KEPT) == text


@pytest.mark.parametrize("name", MADE_ALREADY)
def test_every_cell_of_a_study_has_results_of_the_same_seeds_and_no_others(name):
    found = [result for result in KEPT if result.study == name]
    cells = {label_key(cell.labels) for cell in STUDIES[name].cells}
    assert {label_key(result.labels) for result in found} <= cells  # some are being made
    seeds = {cell: sorted(one.seed for one in found if label_key(one.labels) == cell) for cell in cells}
    assert len({tuple(of_cell) for of_cell in seeds.values() if of_cell}) == 1
    assert max(map(len, seeds.values())) >= FEWEST_SEEDS


@pytest.mark.parametrize("name", MADE_ALREADY)
def test_a_page_has_all_tables_and_charts_of_its_study(name):
    page = (PAGES / f"{name}.md").read_text("utf-8")
    assert [shown for _, shown, _ in MARKED.findall(page)] == [f"{name} {table.name}" for table in STUDIES[name].tables]
    for chart in STUDIES[name].charts:
        assert f"]({name}-{chart.name}.svg)" in page
    assert STUDIES[name].claim


def test_charts_are_those_of_the_kept_results(tmp_path):
    draw_all(KEPT, tmp_path)
    drawn = {path.name for path in tmp_path.glob("*.svg")}
    assert drawn == {path.name for path in PAGES.glob("*.svg")}
    for name in drawn:
        # Their numbers; what is around them changes with matplotlib's version.
        assert paths_of(tmp_path / name) == paths_of(PAGES / name), name


def paths_of(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip().startswith(("<use", "L "))]


ROOT = Path(__file__).parents[2]
TABLE = [line.strip("| ").split(" | ") for line in evidence_table(KEPT).splitlines()[2:]]


def shown(ours: list[float], theirs: list[float], digits: int) -> str:
    """A paired difference with its interval, by scipy."""
    found = ttest_rel(ours, theirs).confidence_interval(0.95)
    middle, reach = (found.high + found.low) / 2, (found.high - found.low) / 2
    return f"{middle:+.{digits}f} ± {reach:.{digits}f}"


def endpoints(comparison: str, arm: str) -> dict[int, float]:
    """The mean held-out accuracy of each run, by seed, from the file itself."""
    (file,) = (ROOT / "examples/finetune/results").glob(f"*-{comparison}.jsonl")
    courses = [json.loads(line)["course"] for line in file.read_text("utf-8").splitlines()]
    return {each["seed"]: sum(each["accuracies"]) / len(each["accuracies"]) for each in courses if each["arm"] == arm}


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(row, Trained)], ids=lambda row: row.text[:40])
def test_a_row_of_real_training_is_the_difference_from_a_shuffled_pass(row: Trained):
    cells = TABLE[ROWS.index(row)]
    base = endpoints(row.comparison, "shuffle")
    for arm, cell in zip(row.arms, cells[3:], strict=True):
        if arm is None:
            assert not cell.strip()
            continue
        ours = endpoints(row.comparison, arm)
        assert cell == shown(list(ours.values()), [base[seed] for seed in ours], 4)
    assert row.arms[1] is not None
    assert cells[2] == str(len(endpoints(row.comparison, row.arms[1])))


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(row, Studied)], ids=lambda row: row.text[:40])
def test_a_row_of_a_study_is_the_difference_from_its_base(row: Studied):
    cells = TABLE[ROWS.index(row)]

    def values(method: str) -> list[float]:
        labels = {**row.labels, row.methods.by: method}
        found = [one for one in KEPT if one.study == row.study and labels.items() <= one.labels.items()]
        assert len({str(one.labels) for one in found}) == 1
        measures = [one.measures for one in sorted(found, key=lambda one: one.seed)]
        return [each["accuracy"][-1] if row.measure == "last_accuracy" else each[row.measure] for each in measures]

    base = values(row.methods.base)
    assert cells[2:] == [str(len(base)), *(shown(values(method), base, 3) for method in row.methods.others)]


def test_all_three_kinds_of_evidence_are_there():
    assert {cells[0] for cells in TABLE} == {"recorded", "simulated", "trained"}
    assert "<!-- study: evidence -->" in (ROOT / "README.md").read_text("utf-8")

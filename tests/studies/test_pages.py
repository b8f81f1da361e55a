"""The pages of the studies show what the kept results say."""

from pathlib import Path

import pytest

from studies.catalogue import STUDIES
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

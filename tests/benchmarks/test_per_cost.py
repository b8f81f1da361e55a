"""The table on what a pass that weighs costs finds is that of its script."""

from pathlib import Path

import pytest

from benchmarks.per_cost import measure, table

PAGE = (Path(__file__).parents[2] / "docs/costs.md").read_text("utf-8")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_shows_what_the_script_measures():
    rows = list(measure(seeds=1))  # of the three that the page has the means of
    head, ruler, *lines = table(iter(rows)).splitlines()
    shown = PAGE[PAGE.index(head) :].splitlines()
    assert shown[1] == ruler
    for row, line, told in zip(rows, lines, shown[2:], strict=False):
        world, arm, per_million, ratio, met = cells(told)
        assert [world, arm] == cells(line)[:2]
        assert float(per_million) == pytest.approx(row.per_million, rel=0.08)
        assert float(ratio) == pytest.approx(row.ratio, abs=0.03)
        assert int(met) == pytest.approx(row.met, abs=10)
    for world in {row.world for row in rows}:
        uniform, plain, weighed = (row for row in rows if row.world == world)
        assert weighed.per_million > 1.02 * plain.per_million > 1.04 * uniform.per_million
        assert uniform.ratio < weighed.ratio < plain.ratio

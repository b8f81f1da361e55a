"""The table on what selection gains without reference pass rates is that of its script."""

from pathlib import Path

import pytest

from benchmarks.without_references import measure, table

PAGE = (Path(__file__).parents[2] / "docs/concepts.md").read_text("utf-8")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_shows_what_the_script_measures():
    rows = list(measure())
    head, ruler, *lines = table(iter(rows)).splitlines()
    shown = PAGE[PAGE.index(head) :].splitlines()
    assert shown[1] == ruler
    for row, line, told in zip(rows, lines, shown[2:], strict=False):
        name, batch, ratio, distinct = cells(told)
        assert [name, batch] == cells(line)[:2]
        # Draws are the same on the same numpy and scipy; on others they differ by chance.
        assert float(ratio) == pytest.approx(row.effective_task_ratio, abs=0.03)
        assert int(distinct) == pytest.approx(row.distinct, abs=40)
    uniform, tracked, tracked_referenced, bare, large, referenced, faithful = (row.effective_task_ratio for row in rows)
    assert uniform < bare < uniform + 0.06  # almost nothing
    assert min(large, referenced, faithful) > bare + 0.1
    assert uniform + 0.1 < tracked < tracked_referenced < tracked + 0.06

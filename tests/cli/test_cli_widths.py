"""Tables and lists on terminals of 40, 80 and 120 columns: nothing is wider, and no word is split."""

import pytest
from rich.console import Console

from bots_service.cli.output import sheet, table

NARROW = 40


def widest_line(text):
    return max(len(line.rstrip()) for line in text.splitlines())


def rendered(renderable, width):
    console = Console(width=width, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


ROW = ("math-17", "0.500", "0.100 to 0.900", "12", "2026-01-02 03:04:05", "512 rollouts of 32 tasks, 17 effective")
COLUMNS = "task  >mean  >90 % within  >last step  time  what"


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100, 120])
def test_a_table_splits_no_word_and_no_number_at_any_width(width):
    text = rendered(table(COLUMNS, [ROW, ROW], caption="2 of 2 tasks"), width)
    titles = COLUMNS.replace(">", "")
    assert widest_line(text) <= width
    assert {*text.replace("─", "").split()} == {*" ".join([titles, *ROW, "2 of 2 tasks"]).split()}
    assert text.count(ROW[1]) == 2
    if width > NARROW:  # numbers stay on their line
        assert text.count(ROW[2]) == 2


def test_a_table_is_as_wide_as_it_needs_and_becomes_blocks_where_it_does_not_fit():
    made = table("a  >b  c", [("x", "1", "u"), ("y", "2", "v")])
    assert rendered(made, 7).splitlines() == ["a  b  c", "───────", "x  1  u", "y  2  v"]
    blocks = ["a  x", "b  1", "c  u", "", "a  y", "b  2", "c  v"]
    assert [line.rstrip() for line in rendered(made, 6).splitlines()] == blocks


def test_a_table_without_rows_has_its_titles_and_wide_characters_count_twice():
    assert rendered(table("a  >b", []), 80).splitlines() == ["a  b", "────"]
    assert rendered(table("a  b", [("数学", "x")]), 7).splitlines()[-1] == "数学  x"
    assert "数学\n" not in rendered(table("a  b", [("数学", "x")]), 7)


def test_a_column_that_says_nothing_is_left_out_where_it_may_be():
    assert "b" not in rendered(table("a  >b?  >c", [("x", "-", "-")]), 80)
    assert rendered(table("a  >b?", [("x", "-"), ("y", "2")]), 80).splitlines()[0] == "a  b"


def test_a_long_word_goes_below_its_name_and_is_split_only_where_no_line_holds_it():
    digest = "0123456789" * 6
    rows = {"name": "short words", "digest": digest}
    assert [line.rstrip() for line in rendered(sheet(rows), 80).splitlines()] == [
        "name    short words",
        f"digest  {digest}",
    ]
    assert [line.rstrip() for line in rendered(sheet(rows), 40).splitlines()] == [
        "name    short words",
        "digest",
        f"  {digest[:38]}",
        f"  {digest[38:]}",
    ]

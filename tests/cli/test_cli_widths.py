"""Help, tables and lists on terminals of 40, 80 and 120 columns: nothing is wider, and no word is split."""

import pytest
from rich.console import Console
from typer.main import get_command

from bots_service.cli.app import app
from bots_service.cli.output import sheet, table

NARROW, WIDE = 40, 1000


def commands_in(command, path=()):
    """Yield the path of each command, the groups' among them."""
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from commands_in(each, (*path, name))


PATHS = list(commands_in(get_command(app)))


def help_at(width, path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit) as left:
        app([*path, "--help"])
    assert left.value.code == 0
    return capsys.readouterr().out


def widest_line(text):
    return max(len(line.rstrip()) for line in text.splitlines())


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_the_help_of_each_command_fits_40_columns_and_splits_no_word(path, capsys, monkeypatch):
    narrow, wide = (help_at(width, path, capsys, monkeypatch) for width in (NARROW, WIDE))
    assert widest_line(narrow) <= NARROW
    assert "…" not in narrow
    assert sorted(narrow.split()) == sorted(wide.split())


def test_the_help_lists_arguments_options_and_choices_as_they_are_written(capsys, monkeypatch):
    shown = help_at(80, ("runs", "create"), capsys, monkeypatch)
    assert "Usage: bots runs create [OPTIONS] DATASET RUN" in shown
    assert "\n  DATASET  Name of the dataset. [required]" in shown
    assert "One of least_squares, paper." in " ".join(shown.split())
    assert "\n  --capability-momentum NUMBER  " in shown
    assert "\n  --close / --keep-open  " in help_at(80, ("report",), capsys, monkeypatch)
    assert "\n  -o, --output FILE  " in help_at(80, ("export",), capsys, monkeypatch)
    assert "[default: the file's name]" in help_at(80, ("datasets", "import"), capsys, monkeypatch)


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

"""The check of sizes says what is too long, where, and by how much."""

import ast

import pytest

from tools.check_sizes import LIMITS, Limits, main, may_be_short, own_lines, problems_in

SHORT = Limits(file=10, function=3)


def function_of(lines: int, docstring: str = "") -> str:
    return "\n".join(["def f():", *([f'    """{docstring}"""'] if docstring else []), *["    x = 1"] * (lines - 1)])


@pytest.mark.parametrize(("source", "lines"), [(function_of(3), 3), (function_of(3, "One.\n\n    Two.\n    "), 3)])
def test_a_docstring_costs_nothing(source, lines):
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    assert own_lines(node) == lines


def test_what_is_just_short_enough_passes():
    assert list(problems_in(function_of(3) + "\n" * 8, "a.py", SHORT)) == []


def test_a_long_file_is_named_with_its_length():
    [problem] = problems_in("x = 1\n" * 11, "a.py", SHORT)
    assert problem.startswith("a.py: 11 lines, at most 10")


@pytest.mark.parametrize("indent", ["", "    "], ids=["function", "method"])
@pytest.mark.parametrize("prefix", ["", "async "])
def test_a_long_function_is_named_with_its_line(indent, prefix):
    body = "\n".join(indent + line for line in (prefix + function_of(4)).splitlines())
    [problem] = problems_in(f"class C:\n{body}" if indent else f"\n{body}", "a.py", SHORT)
    assert problem.startswith("a.py:2: f() has 4 lines without its docstring, at most 3")


def test_tests_may_have_long_functions():
    assert list(problems_in(function_of(9), "a.py", Limits(file=10, function=None))) == []


def test_a_short_file_is_named_unless_it_has_a_reason():
    limits = Limits(file=10, function=3, shortest_file=4)
    [problem] = problems_in("x = 1\n" * 3, "service/bots_service/usecases/a.py", limits)
    assert problem.startswith("service/bots_service/usecases/a.py: 3 lines, at least 4")
    assert list(problems_in("x = 1\n" * 4, "service/bots_service/usecases/a.py", limits)) == []
    assert list(problems_in("x = 1\n" * 3, "service/bots_service/usecases/__init__.py", limits)) == []


@pytest.mark.parametrize("name", ["core/belief/__init__.py", "__main__.py", "api/routes/health.py", "ports/keys.py"])
def test_packages_entry_points_routes_and_ports_may_be_short(name):
    assert may_be_short(f"service/bots_service/{name}")


def test_the_check_fails_on_a_long_file_and_passes_a_long_migration(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    long_file = "x = 1\n" * (LIMITS["client"].file + 1)
    for name in ("migrations/versions/0001.py", "client/bots_client/calls.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(long_file)
    assert main() == 1
    assert f"client/bots_client/calls.py: {LIMITS['client'].file + 1} lines" in (told := capsys.readouterr().out)
    assert "0001" not in told
    (tmp_path / "client/bots_client/calls.py").unlink()
    assert main() == 0

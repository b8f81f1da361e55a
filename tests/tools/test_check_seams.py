"""The check of seams finds where tests reach into private parts, and lets their number only fall."""

import pytest

from tools import check_seams
from tools.check_seams import main, places_in


@pytest.mark.parametrize(
    "line",
    [
        "world.live._runs",
        "len(client._spool.files)",
        "world.use.select_tasks.leases.clock",
        "use.observe_runs.look.sizes()",
        "port.get = slow  # type: " + "ignore[method-assign]",
    ],
)
def test_what_reaches_into_private_parts_is_found_with_its_line(line):
    [place] = places_in(f"x = 1\n{line}\n", "tests/test_a.py")
    assert place.startswith("tests/test_a.py:2: ")


@pytest.mark.parametrize(
    "line",
    [
        "self._runs",
        "cls._made",
        "super()._answers()",
        "f.__name__",
        "os._exit(0)",
        "await world.use.observe_runs.once()",
    ],
)
def test_own_parts_and_calls_of_use_cases_are_not(line):
    assert list(places_in(f"async def test():\n    {line}\n", "tests/test_a.py")) == []


def test_a_file_may_not_have_more_places_than_are_known_and_fewer_must_be_noted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests/trainers").mkdir(parents=True)
    (tmp_path / "tests/test_a.py").write_text("a._b\n")
    (tmp_path / "tests/trainers/test_b.py").write_text("trainer._step\n")
    for known, code, said in (
        ({}, 1, "tests/test_a.py: 1 places, at most 0"),
        ({"tests/test_a.py": 1}, 0, "Seams: 1 places"),
        ({"tests/test_a.py": 2}, 1, "lower its number"),
        ({"tests/test_a.py": 1, "tests/gone.py": 1}, 1, "tests/gone.py: 0 places"),
    ):
        monkeypatch.setattr(check_seams, "KNOWN", known)
        assert main() == code
        assert said in capsys.readouterr().out

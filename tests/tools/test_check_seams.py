"""The check of seams finds where tests reach into private parts."""

import pytest

from tools.check_seams import main, places_in


@pytest.mark.parametrize(
    "line",
    [
        "world.live._runs",
        "len(client._spool.files)",
        "world.use.select_tasks.leases.clock",
        "use.observe_runs.look.outlooks()",
        "monkeypatch.setattr(job, '_clock', clock)",
        "monkeypatch.setattr('bots_service.engine._ended', ended)",
        "getattr(job, '_clock')",
        "from bots_client._resilience.delivery import _call_of",
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
        "monkeypatch.setattr(job, 'clock', '_')",
        "setattr(f, '__name__', 'g')",
        "from bots_client._resilience import breaker",
        "monkeypatch.setenv('_X', '1')",
        "await world.use.observe_runs.once()",
    ],
)
def test_own_parts_and_calls_of_use_cases_are_not(line):
    assert list(places_in(f"async def test():\n    {line}\n", "tests/test_a.py")) == []


def test_one_place_is_too_many_but_the_trainers_have_no_public_parts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests/trainers").mkdir(parents=True)
    (tmp_path / "tests/trainers/test_b.py").write_text("trainer._step\n")
    assert main() == 0
    assert capsys.readouterr().out == "Seams: 0 places where tests reach into private parts\n"
    (tmp_path / "tests/test_a.py").write_text("a._b\n")
    assert main() == 1
    assert capsys.readouterr().out.startswith("tests/test_a.py:1: reads a._b\nSeams: 1 places")

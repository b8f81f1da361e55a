"""The methods of both clients are what the calls make, and the check notices a call that has none."""

from pathlib import Path

from tools.client_methods import KINDS, PACKAGE, main

ROOT = Path(__file__).parents[2]


def test_the_kept_methods_are_what_the_calls_make(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    assert (main("--check"), capsys.readouterr().out) == (0, "Client: the methods are up to date\n")


def test_a_new_call_is_missed_until_its_methods_are_written(tmp_path, monkeypatch, capsys):
    calls = tmp_path / PACKAGE / "_calls"
    calls.mkdir(parents=True)
    for file in (ROOT / PACKAGE / "_calls").glob("*_calls.py"):
        calls.joinpath(file.name).write_text(file.read_text("utf-8"), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main() == 0
    with (calls / "run_calls.py").open("a", encoding="utf-8") as file:
        file.write('\n\ndef warm(dataset: str, *, steps: int = PAGE) -> Call[Run]:\n    """Warm a run."""\n')

    assert main("--check") == 1
    assert capsys.readouterr().out.count("is not what the calls make") == len(KINDS)
    assert main() == main("--check") == 0
    text = (tmp_path / PACKAGE / "_async_client_methods.py").read_text("utf-8")
    assert "async def warm(self, dataset: str, *, steps: int = 100) -> Run:" in text
    assert "return await self.send(run_calls.warm(dataset, steps=steps))" in text


def test_arguments_that_mean_nothing_are_refused(capsys):
    assert main("--write") == 2
    assert "--write" in capsys.readouterr().out

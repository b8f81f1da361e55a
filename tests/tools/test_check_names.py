"""The check of names finds classes that share one, wherever they stand."""

from tools.check_names import PACKAGE, classes_in, duplicates, main


def test_each_class_is_found_with_its_line_also_inside_another():
    source = "class A:\n    class B:\n        pass\n\n\ndef f():\n    class C:\n        pass\n"
    assert sorted(classes_in(source, "a.py")) == [("A", "a.py:1"), ("B", "a.py:2"), ("C", "a.py:7")]


def test_only_names_that_occur_twice_are_duplicates():
    assert duplicates([("A", "a.py:1"), ("B", "a.py:2"), ("A", "b.py:3")]) == {"A": ["a.py:1", "b.py:3"]}


def test_the_check_names_both_places_and_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("core", "api"):
        (tmp_path / PACKAGE / folder).mkdir(parents=True)
    (tmp_path / PACKAGE / "core/runs.py").write_text("class Sum:\n    pass\n")
    assert main() == 0
    (tmp_path / PACKAGE / "api/answers.py").write_text("\nclass Sum:\n    pass\n")
    assert main() == 1
    assert (
        f"class Sum is defined 2 times: {PACKAGE}/api/answers.py:2, {PACKAGE}/core/runs.py:1" in capsys.readouterr().out
    )

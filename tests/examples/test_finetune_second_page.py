"""The page of the finetuning run shows what the second kind of task and TRL's trainer gave."""

from pathlib import Path

import pytest

from examples.finetune.course import Course, Record, records_of
from examples.finetune.groups import group_tables, shares_of
from examples.finetune.jobs import Job, runs_of
from examples.finetune.loops import loops_table
from examples.finetune.measures import arms_of, charged, difference, differences, final_accuracy, mean_accuracy
from examples.finetune.plan import BASE, COMPARISONS
from examples.finetune.table import OTHERS, tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/studies/finetuning.md").read_text("utf-8")
SAID = " ".join(PAGE.split())
RESULTS = ROOT / "examples/finetune/results"


def results_of(name: str) -> list[Record]:
    (file,) = RESULTS.glob(f"*-{name}.jsonl")
    return records_of([file])


def own_loop() -> list[Record]:
    (file,) = (file for file in RESULTS.glob("*.jsonl") if "-" not in file.stem)
    return records_of([file])


def courses_of(name: str) -> list[Course]:
    return [record.course for record in results_of(name)]


@pytest.mark.parametrize("name", ["families", "trl"])
def test_the_results_are_those_of_the_registered_plan(name: str) -> None:
    records, comparison = results_of(name), COMPARISONS[name]
    assert len({record.commit for record in records}) == 1
    assert not records[0].commit.endswith("+")
    assert {record.plan for record in records} == {comparison.plan}
    ran = [Job(record.course.seed, record.course.arm) for record in records]
    assert ran == runs_of(comparison, None, list(comparison.seeds))


def test_the_page_shows_every_table_of_the_families() -> None:
    courses, plan = courses_of("families"), COMPARISONS["families"].plan
    for table in (tables(courses, plan) + "\n" + group_tables(courses, plan)).split("\n\n"):
        assert table.strip() in PAGE


def test_the_page_says_in_words_what_the_families_say() -> None:
    arms = arms_of(courses_of("families"))
    found = difference(arms, "pass-r2", mean_accuracy)
    assert f"{found.mean:.4f} above `shuffle` over the course ({found.low:+.4f} to {found.high:+.4f}, p 0.031" in SAID
    assert sum(value > 0 for value in differences(arms, "pass-r2", mean_accuracy)) == 6
    tagged = difference(arms, "pass-r2-tags", mean_accuracy)
    assert f"`pass-r2-tags` {tagged.mean:.4f} ({tagged.low:+.4f} to {tagged.high:+.4f}, p 0.008, all eight)" in SAID
    assert min(differences(arms, "pass-r2-tags", mean_accuracy)) > 0
    assert all(difference(arms, arm, final_accuracy).low < 0 for arm in arms if arm != BASE)
    plan = COMPARISONS["families"].plan
    each = plan.tasks_per_step * plan.rollouts
    paid = {**arms, "pass-r2": {seed: charged(course, each) for seed, course in arms["pass-r2"].items()}}
    assert f"takes the gain away: {difference(paid, 'pass-r2', mean_accuracy).mean:+.4f}." in SAID


def test_the_page_says_in_words_where_the_visits_went() -> None:
    arms, plan = arms_of(courses_of("families")), COMPARISONS["families"].plan

    def share(arm: str, name: str) -> str:
        runs = arms[arm].items()
        return f"{100 * sum(shares_of(plan, seed, course.visits)[name] for seed, course in runs) / len(runs):.1f} %"

    assert f"gave {share('bots-r2', 'noise')} of its visits to noise and {share('bots-r2', 'mislabelled')} to" in SAID
    assert f"gave them {share('pass-r2', 'noise')} and {share('pass-r2', 'mislabelled')};" in SAID
    assert f"take noise down to {share('pass-r2-tags', 'noise')}" in SAID
    assert f"mislabelled tasks up to {share('pass-r2-tags', 'mislabelled')}" in SAID
    assert float(share("pass-r2", "modulo").removesuffix(" %")) > 20


def test_the_page_shows_both_loops_on_the_same_seeds() -> None:
    assert loops_table(own_loop(), results_of("trl")) in PAGE
    arms = arms_of(courses_of("trl"))
    found, end = (difference(arms, "pass-r2", measure) for measure in (mean_accuracy, final_accuracy))
    assert f"by {found.mean:.4f} on average ({found.low:+.4f} to {found.high:+.4f})" in SAID
    assert sum(value > 0 for value in differences(arms, "pass-r2", mean_accuracy)) == 3
    assert f"was {-end.mean:.3f} below `shuffle` ({end.low:+.3f} to {end.high:+.3f})" in SAID


def test_the_page_says_what_a_step_takes_trl() -> None:
    courses = courses_of("trl")
    took, computed, waited = (
        sum(OTHERS[name][0](course) for course in courses) / len(courses)
        for name in ("ms a step", "of them CPU", "waiting")
    )
    assert f"took {took:.0f} ms, of which TRL's process computed {computed:.0f} and waited {waited:.0f} for" in SAID

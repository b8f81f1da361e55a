"""The page of the finetuning run shows what the second kind of task and TRL's trainer gave."""

from pathlib import Path

import numpy as np
import pytest

from examples.finetune.course import Course, registered_runs
from examples.finetune.groups import group_tables, shares_of
from examples.finetune.intervals import interval, sign_flip_p
from examples.finetune.jobs import Job, runs_of
from examples.finetune.loops import loops_table
from examples.finetune.measures import arms_of, charged, difference, differences, final_accuracy, mean_accuracy
from examples.finetune.plan import BASE, COMPARISONS
from examples.finetune.table import OTHERS, tables, together
from examples.finetune.tenths import tenth_tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/studies/finetuning.md").read_text("utf-8")
SAID = " ".join(PAGE.split())
PENDING = {"middle"}  # registered, and not run yet
RUN = [name for name in COMPARISONS if name not in PENDING]


def courses_of(name: str) -> list[Course]:
    return [record.course for record in registered_runs(name)]


@pytest.mark.parametrize("name", RUN)
def test_the_results_are_those_of_the_registered_plan(name: str) -> None:
    records, comparison = registered_runs(name), COMPARISONS[name]
    assert len({record.commit for record in records}) == 1
    assert not records[0].commit.endswith("+")
    assert {record.plan for record in records} == {comparison.plan}
    ran = {Job(record.course.seed, record.course.arm) for record in records}
    assert len(ran) == len(records)
    assert ran == set(runs_of(comparison, None, list(comparison.seeds)))


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


def test_the_page_shows_every_table_of_the_replication() -> None:
    courses = courses_of("replication")
    for table in tables(courses, COMPARISONS["replication"].plan).split("\n\n"):
        assert table.strip() in PAGE
    comparisons = [arms_of(courses_of(name)) for name in ("additions", "replication")]
    assert "\n".join(together(comparisons, ["pass", "pass-r2", "pass-tags"])) in PAGE


def test_the_page_says_in_words_what_the_replication_gave() -> None:
    arms = [arms_of(courses_of(name)) for name in ("additions", "replication")]
    new = {arm: difference(arms[1], arm, mean_accuracy) for arm in ("pass", "pass-r2", "pass-tags")}
    p = {arm: sign_flip_p(differences(arms[1], arm, mean_accuracy)) for arm in new}
    assert f"`pass-r2` is {new['pass-r2'].mean:.4f} above `shuffle` (p {p['pass-r2']:.3f})" in SAID
    assert f"`pass-tags` {new['pass-tags'].mean:.4f} (p {p['pass-tags']:.3f})" in SAID
    assert f"{new['pass'].mean:.4f} ({new['pass'].low:+.4f} to {new['pass'].high:+.4f}, p {p['pass']:.3f})" in SAID
    assert [difference(each, "pass", mean_accuracy).low < 0 for each in arms] == [True, True]
    both = {arm: [value for each in arms for value in differences(each, arm, mean_accuracy)] for arm in new}
    mean, p_of = {arm: interval(both[arm]) for arm in both}, {arm: sign_flip_p(both[arm]) for arm in both}
    assert f"Over all seeds they are {mean['pass-r2'].mean:.4f} (32 seeds, p {p_of['pass-r2']:.4f})" in SAID
    assert f"and {mean['pass-tags'].mean:.4f} (24 seeds, p {p_of['pass-tags']:.5f}) above" in SAID
    bare = mean["pass"]
    assert f"{bare.mean:.4f} over 24 seeds ({bare.low:+.4f} to {bare.high:+.4f}, p {p_of['pass']:.3f})" in SAID


@pytest.mark.parametrize("name", RUN)
def test_no_arm_with_pass_is_certainly_above_at_the_end(name: str) -> None:
    arms = arms_of(courses_of(name))
    assert all(difference(arms, arm, final_accuracy).low < 0 for arm in arms if arm.startswith("pass"))


@pytest.mark.parametrize("name", ["large", "large-faster"])
def test_the_page_shows_how_the_larger_model_went_on(name: str) -> None:
    shown = tenth_tables(courses_of(name)).split("\n\n")
    assert all(table.strip() in PAGE for table in (shown if name == "large" else shown[:1]))


def test_the_page_shows_the_tables_of_the_larger_model() -> None:
    for table in tables(courses_of("large"), COMPARISONS["large"].plan).split("\n\n"):
        assert table.strip() in PAGE
    for table in tables(courses_of("large-faster"), COMPARISONS["large-faster"].plan).split("\n\n"):
        assert table.strip() in PAGE


def test_the_page_says_in_words_what_the_larger_model_gave() -> None:
    arms = arms_of(courses_of("large"))
    gained = {arm: difference(arms, arm, mean_accuracy) for arm in arms if arm != BASE}
    half = {arm: difference(arms, arm, lambda course: course.accuracies[10]).mean for arm in gained}
    end = {arm: difference(arms, arm, final_accuracy).mean for arm in gained}
    assert f"`pass` was {half['pass']:.3f} above `shuffle`, `pass-tags` {half['pass-tags']:.3f}, and `pass-r2`" in SAID
    assert f"`pass-r2` {half['pass-r2']:.3f}. Over the whole course" in SAID
    for arm, p in (("pass", "0.43"), ("pass-tags", "0.0006"), ("pass-r2", "0.0002")):
        assert f"{gained[arm].mean:.4f} ({gained[arm].low:+.4f} to {gained[arm].high:+.4f}, p {p})" in SAID
        assert float(p) == pytest.approx(sign_flip_p(differences(arms, arm, mean_accuracy)), rel=0.15)
    passes = [end[arm] for arm in ("pass", "pass-tags", "pass-r2")]
    assert f"by {-max(passes):.3f} to {-min(passes):.3f}, and `bots-r2` by {-end['bots-r2']:.3f}" in SAID
    assert f"is {gained['oracle'].mean:.3f} above over the course and {end['oracle']:.3f} at the end" in SAID


def test_the_page_says_in_words_how_far_the_larger_model_came_and_what_was_visited() -> None:
    arms = arms_of(courses_of("large"))
    before, after = (np.mean([course.accuracies[at] for course in arms[BASE].values()]) for at in (0, -1))
    assert f"rises from {before:.3f} to {after:.3f}, where" in SAID
    most = [np.mean([max(course.visits) for course in arms[arm].values()]) for arm in ("pass", "pass-tags", "pass-r2")]
    assert f"one task came {min(most):.0f} to {max(most):.0f} times" in SAID
    often = [
        np.mean([sum(count > 20 for count in course.visits) for course in arms[arm].values()])
        for arm in ("pass", "pass-tags", "pass-r2")
    ]
    assert f"and {min(often):.0f} to {max(often):.0f} tasks took a third of all visits" in SAID


def test_the_page_says_in_words_what_a_higher_rate_gave() -> None:
    arms = arms_of(courses_of("large-faster"))
    bare, tagged = (difference(arms, arm, mean_accuracy) for arm in ("pass", "pass-tags"))
    assert f"`pass` is {-bare.mean:.4f} below `shuffle` over the course ({bare.low:+.4f} to {bare.high:+.4f}" in SAID
    assert f"`pass-tags` {tagged.mean:.4f} above ({tagged.low:+.4f} to {tagged.high:+.4f}" in SAID


def test_the_page_shows_both_loops_on_the_same_seeds() -> None:
    assert loops_table(registered_runs("additions"), registered_runs("trl")) in PAGE
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

"""The page of the finetuning run shows what the second kind of task and TRL's trainer gave."""

from pathlib import Path

import pytest

from examples.finetune.course import Course, registered_runs
from examples.finetune.groups import group_tables, shares_of
from examples.finetune.intervals import interval, sign_flip_p
from examples.finetune.jobs import Job, runs_of
from examples.finetune.loops import loops_table
from examples.finetune.measures import arms_of, charged, difference, differences, final_accuracy, mean_accuracy
from examples.finetune.plan import BASE, COMPARISONS
from examples.finetune.table import OTHERS, tables, together

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/studies/finetuning.md").read_text("utf-8")
SAID = " ".join(PAGE.split())
PENDING = {"large", "large-faster"}  # registered, and not run yet
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

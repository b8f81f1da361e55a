"""The tables on the page of the finetuning run are those that its results give."""

import re
from pathlib import Path

import pytest

from examples.finetune.course import Course, registered_runs
from examples.finetune.groups import group_tables
from examples.finetune.jobs import Job, runs_of
from examples.finetune.loops import loops_table
from examples.finetune.measures import arms_of, difference, final_accuracy
from examples.finetune.plan import COMPARISONS
from examples.finetune.table import tables, together
from examples.finetune.tenths import tenth_tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/studies/finetuning.md").read_text("utf-8")
TABLE = re.compile(r"^\|.*\n(?:\|.*\n)*", re.MULTILINE)
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


def made() -> set[str]:
    """Return every table that the results of the registered runs give."""
    found = [loops_table(registered_runs("additions"), registered_runs("trl"))]
    comparisons = [arms_of(courses_of(name)) for name in ("additions", "replication")]
    found.append("\n".join(together(comparisons, ["pass", "pass-r2", "pass-tags"])))
    for name in RUN:
        plan = COMPARISONS[name].plan
        found.append(tables(courses_of(name), plan))
        if name == "families":
            found.append(group_tables(courses_of(name), plan))
        if name.startswith("large"):
            found.append(tenth_tables(courses_of(name)))
    return {table.strip() for one in found for table in TABLE.findall(one + "\n")}


def test_every_table_of_figures_on_the_page_is_one_that_the_results_give() -> None:
    shown = [table.strip() for table in TABLE.findall(PAGE.split("## What was run")[0])]
    assert len(shown) > len(RUN)
    assert set(shown) - made() == set()


@pytest.mark.parametrize("name", RUN)
def test_no_arm_with_pass_is_certainly_above_at_the_end(name: str) -> None:
    arms = arms_of(courses_of(name))
    assert all(difference(arms, arm, final_accuracy).low < 0 for arm in arms if arm.startswith("pass"))

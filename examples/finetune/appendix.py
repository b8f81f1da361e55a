"""What the kept results say, written by one command, `python -m examples.finetune.appendix`.

It makes results/APPENDIX.md with the tables of every registered comparison, and for the newest one of `SHOWN` the chart
docs/images/learning.svg and the table of docs/studies/finetuning.md.
"""

import re
from dataclasses import replace
from pathlib import Path

from examples.finetune.chart import draw_chart
from examples.finetune.course import REGISTERED, Course, Record, registered_runs
from examples.finetune.groups import group_tables
from examples.finetune.measures import arms_of
from examples.finetune.plan import BASE, COMPARISONS
from examples.finetune.table import field_units, main_table, tables, together
from examples.finetune.tenths import tenth_tables

ROOT = Path(__file__).parents[2]
PAGE, CHART, APPENDIX = (
    ROOT / "docs/studies/finetuning.md",
    ROOT / "docs/images/learning.svg",
    REGISTERED / "APPENDIX.md",
)
MARKED = re.compile(r"(<!-- results: (\w+) -->\n\n)(?:\|.*\n)*")
SHOWN = ("large", "middle", "replication")  # the first that was run
TITLES = {
    "additions": "Additions: the first comparison",
    "replication": "The same on new seeds",
    "families": "A second kind of task",
    "trl": "By TRL's trainer",
    "large-unbounded": "25 million weights, before `pass` had a lower bound",
    "large-faster": "The same at a higher learning rate",
    "middle": "1.7 million weights, with the lower bound",
    "large": "25 million weights, with the lower bound",
    "groups": "Refilling, `pass`, and as many groups as wanted",
    "real": "A pool as real ones are",
    "real-large": "A pool as real ones are, 25 million weights",
}


def was_run(name: str) -> bool:
    """Tell whether the results of a comparison are here."""
    return any(REGISTERED.glob(f"*-{name}.jsonl"))


def appendix() -> str:
    """Return the appendix."""
    sections = [
        "# All results\n\n"
        "Made by `python -m examples.finetune.appendix` from the files of this folder, each named after the commit "
        "that ran it. [REGISTRATION.md](../REGISTRATION.md) says what was asked before each first run, "
        "[the page](../../../docs/studies/finetuning.md) what follows.\n"
    ]
    sections += [section(name) for name in COMPARISONS if was_run(name)]
    return "\n".join(sections)


def section(name: str) -> str:
    """Return what the appendix says of a comparison."""
    records = registered_runs(name)
    plan, machine, courses = records[0].plan, records[0].machine, [record.course for record in records]
    on = machine.get("accelerator", machine["processor"])
    sizes = f"{plan.steps} steps, {plan.tasks_per_step} tasks x {plan.rollouts} rollouts, pool of {sum(plan.pool):,}"
    made = f"`{name}`: {len(records)} runs of {sizes}; at commit {records[0].commit}, on {on}."
    parts = [f"## {TITLES[name]}", made, *other_starts(courses)]
    parts.append(tables(courses, plan))
    if name == "replication":
        both = [arms_of(record.course for record in registered_runs(one)) for one in ("additions", name)]
        parts.append("\n".join(together(both, ["pass", "pass-r2", "pass-tags"])))
    if name == "trl":
        parts += ["This example's own loop on the same seeds, cut to as many steps:", own_loop(records)]
    if plan.kind != "additions":
        parts.append(group_tables(courses, plan))
    parts.append(tenth_tables(courses))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def other_starts(courses: list[Course]) -> list[str]:
    """Return what is to be said of runs that began at another accuracy than shuffle of the same seed, if any did."""
    starts = {course.seed: course.accuracies[0] for course in courses if course.arm == BASE}
    other = [
        f"`{one.arm}` {one.seed}" for one in courses if one.accuracies[0] != starts.get(one.seed, one.accuracies[0])
    ]
    said = "Not paired as they should be, as they began from another warm-up than `shuffle` of their seed: "
    return [f"{said}{', '.join(sorted(other))}."] if other else []


def own_loop(trl: list[Record]) -> str:
    """Return what the arms of TRL's runs have in the additions, which began from the same models."""
    plan, seeds, arms = trl[0].plan, {one.course.seed for one in trl}, {one.course.arm for one in trl}
    own = [record.course for record in registered_runs("additions")]
    cut = [replace(course, accuracies=course.accuracies[: plan.evaluations]) for course in own if course.seed in seeds]
    return "\n".join(main_table(arms_of(course for course in cut if course.arm in arms)))


def page(text: str) -> str:
    """Return the page with the tables of the newest comparison that was run."""
    records = registered_runs(newest())
    arms = arms_of(sorted((record.course for record in records), key=lambda course: course.seed))
    made = {"gains": main_table(arms), "units": field_units(arms, records[0].plan)}
    return MARKED.sub(lambda marked: marked[1] + "\n".join(made[marked[2]]) + "\n", text)


def newest() -> str:
    """Return the name of the comparison that the page shows."""
    return next(name for name in SHOWN if was_run(name))


if __name__ == "__main__":
    APPENDIX.write_text(appendix(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
    draw_chart(registered_runs(newest()), CHART)

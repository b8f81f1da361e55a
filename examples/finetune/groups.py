"""The results by group of tasks, as Markdown."""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from examples.finetune.course import Course
from examples.finetune.families import is_mislabelled
from examples.finetune.kinds import problems_of
from examples.finetune.measures import Arms, arms_of, difference
from examples.finetune.plan import BASE, Plan
from examples.finetune.table import head, line, within


def group_tables(courses: list[Course], plan: Plan) -> str:
    """Return two tables: how accurate each arm is on each group, and which groups it visited.

    Args:
        courses: the runs, shuffle's among them.
        plan: theirs.
    """
    arms = arms_of(sorted(courses, key=lambda course: course.seed))
    parts = [accuracies(arms, plan), visits(arms, plan)]
    return "\n".join("\n".join([*part, ""]) for part in parts).rstrip("\n") + "\n"


def accuracies(arms: Arms, plan: Plan) -> Iterator[str]:
    """Yield shuffle's held-out accuracy on each group, before and after, and how much more the others have.

    The differences are those of the means over the course.
    """
    base, others = list(arms[BASE].values()), [arm for arm in arms if arm != BASE]
    yield from head(
        "held-out accuracy", "before", f"`{BASE}` at the end", *(f"`{arm}` minus `{BASE}`" for arm in others)
    )
    for place, group in enumerate(held_out_groups(plan, base[0].seed)):
        before, after = (fmean(course.by_group[at][place] for course in base) for at in (0, -1))
        more = (within(difference(arms, arm, mean_on(place))) for arm in others)
        yield line(group, f"{before:.3f}", f"{after:.3f}", *more)


def held_out_groups(plan: Plan, seed: int) -> list[str]:
    """Return the groups that have held-out tasks, in the order of `Course.by_group`."""
    _, held_out = problems_of(plan, seed)
    return list(dict.fromkeys(problem.group for problem in held_out))


def mean_on(place: int) -> Callable[[Course], float]:
    """Return what asks a run for its held-out accuracy on a group, as the mean over the course."""
    return lambda course: fmean(groups[place] for groups in course.by_group)


def visits(arms: Arms, plan: Plan) -> Iterator[str]:
    """Yield the share of all visits that goes to each group, and to mislabelled tasks; and the share of the pool."""
    whole = shares_of(plan, next(iter(arms[BASE])), [1] * sum(plan.pool))
    yield from head("share of the visits", *whole)
    yield line("of the pool", *(f"{share:.3f}" for share in whole.values()))
    for arm, runs in arms.items():
        found = [shares_of(plan, seed, course.visits) for seed, course in runs.items()]
        yield line(f"`{arm}`", *(f"{fmean(shares[name] for shares in found):.3f}" for name in whole))


def shares_of(plan: Plan, seed: int, visits: Sequence[int]) -> dict[str, float]:
    """Return the share of visits, [pool], that went to each group, and to mislabelled tasks where there are any."""
    pool, _ = problems_of(plan, seed)
    counts = dict.fromkeys((problem.group for problem in pool), 0)
    for problem, count in zip(pool, visits, strict=True):
        counts[problem.group] += count
    if plan.kind == "families":
        pairs = zip(pool, visits, strict=True)
        counts["mislabelled"] = sum(count for problem, count in pairs if is_mislabelled(problem))
    return {name: count / sum(visits) for name, count in counts.items()}

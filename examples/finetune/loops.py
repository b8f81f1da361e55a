"""Two loops on the same seeds, as Markdown: `python -m examples.finetune.loops additions.jsonl trl.jsonl`."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from examples.finetune.course import Course, Record, records_of
from examples.finetune.intervals import sign_flip_p
from examples.finetune.measures import Arms, arms_of, difference, differences, mean_accuracy
from examples.finetune.plan import BASE
from examples.finetune.table import head, line, probability, within

OTHER = "pass-r2"


def loops_table(own: list[Record], trl: list[Record]) -> str:
    """Return what `pass-r2` has more than shuffle in both loops, on the seeds of TRL's runs and as many steps."""
    evaluations, seeds = trl[0].plan.evaluations, {record.course.seed for record in trl}
    # Both begin from the same models and evaluate as often, so the first evaluations are of the same steps.
    if own[0].plan.evaluate_every != trl[0].plan.evaluate_every:
        raise ValueError("the two loops were not evaluated as often")
    cut = [shortened(record.course, evaluations) for record in own if record.course.seed in seeds]
    return "\n".join(rows({"torch": arms_of(cut), "trl": arms_of(record.course for record in trl)})) + "\n"


def shortened(course: Course, evaluations: int) -> Course:
    """Return a run as it was after so many evaluations. Held-out accuracies alone are changed."""
    return replace(course, accuracies=course.accuracies[:evaluations])


def rows(loops: dict[str, Arms]) -> Iterator[str]:
    """Yield each loop's endpoints, seed by seed, then what they say together."""
    yield from head("loop", "seed", f"`{BASE}`", f"`{OTHER}`", "difference", "p")
    for loop, arms in loops.items():
        pairs = {seed: (arms[BASE][seed], course) for seed, course in sorted(arms[OTHER].items())}
        for seed, pair in pairs.items():
            base, other = map(mean_accuracy, pair)
            yield line(loop, str(seed), f"{base:.4f}", f"{other:.4f}", f"{other - base:+.4f}", "")
        found = difference(arms, OTHER, mean_accuracy)
        yield line(
            loop, "all", "", "", within(found), probability(sign_flip_p(differences(arms, OTHER, mean_accuracy)))
        )


if __name__ == "__main__":
    print(loops_table(*(records_of([Path(file)]) for file in sys.argv[1:3])), end="")

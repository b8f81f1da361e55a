"""Sentences of some pages, with the places of tables whose figures they must have."""

Place = tuple[str, str, tuple[str, ...], str]  # study, table, the first cells of the row, heading of the column

RECORDED, REASONING = "recorded run", "reasoning gym"
SHARED, SKILLS, INTERFERENCE, MEMORISING = "shared ability", "hidden skills", "interference", "memorising"
BOTS, PASS, THOMPSON = "BOTS", "tracker, pass", "tracker, thompson"
STEPS, DIFFERENCE, ETR, LOSS = "steps to shuffle's end", "difference", "ETR", "pool log loss"
LAST, RIGHT = "chosen success, last quarter", "right and wrong"


def learning(heading: str, pool: str, *methods: str) -> list[Place]:
    """Figures of methods on a pool that learns."""
    return [("methods", "learning", (pool, method), heading) for method in methods]


def recorded(heading: str, *methods: str) -> list[Place]:
    """Figures of methods, each on the recorded run and on reasoning gym."""
    return [("methods", "recorded", (pool, method), heading) for method in methods for pool in (RECORDED, REASONING)]


def size(heading: str, table: str, value: str, *methods: str) -> list[Place]:
    """Figures of methods where one size has a value."""
    return [("sizes", table, (value, method), heading) for method in methods]


def reward(heading: str, kind: str, *methods: str) -> list[Place]:
    """Figures of methods with a kind of rewards, each on the recorded run and on reasoning gym."""
    return [
        ("rewards", "rewards", (pool, kind, method), heading) for method in methods for pool in (RECORDED, REASONING)
    ]


def overhead(tasks: str, method: str, *headings: str) -> list[Place]:
    """Figures of a method in a pool of so many tasks."""
    return [("overhead", "time", (tasks, method), heading) for heading in headings]


DENSE = "BOTS, dense as published"
SENTENCES: list[tuple[str, str, list[Place]]] = [
    (
        "methods.md",
        "On `shared ability` the tracker with Thompson sampling has a shuffle's final accuracy after {} of the steps, "
        "BOTS after {}, MoPPS after {}, `pass` after {}.",
        learning(STEPS, SHARED, THOMPSON, BOTS, "MoPPS", PASS),
    ),
    (
        "methods.md",
        "On `hidden skills` they need {}, {}, {} and {}.",
        learning(STEPS, SKILLS, THOMPSON, BOTS, "MoPPS", PASS),
    ),
    (
        "methods.md",
        "On `interference` the difference from a shuffle's accuracy at the end is {} for the tracker with Thompson "
        "sampling and {} for MoPPS; that of BOTS, {}, can't be distinguished from 0.",
        learning(DIFFERENCE, INTERFERENCE, THOMPSON, "MoPPS", BOTS),
    ),
    (
        "methods.md",
        "It is {} for `pass`, which has a shuffle's final accuracy after {} of the steps.",
        [*learning(DIFFERENCE, INTERFERENCE, PASS), *learning(STEPS, INTERFERENCE, PASS)],
    ),
    (
        "methods.md",
        "On `memorising` the difference at the end is {} for BOTS and {} for the tracker with Thompson sampling, {} "
        "for `pass`.",
        learning(DIFFERENCE, MEMORISING, BOTS, THOMPSON, PASS),
    ),
    (
        "methods.md",
        "Where the pull is half as strong again, it still ends at {}, a shuffle at {} and BOTS at {}.",
        [("methods", "pull", ("interference, pull 0.3",), f"method {method}") for method in (PASS, "shuffle", BOTS)],
    ),
    (
        "methods.md",
        "On `interference` it has a shuffle's final accuracy after {} of the steps, but after {} times the shuffle's "
        "rollouts; on the others after {} and {} times.",
        [
            *learning(STEPS, INTERFERENCE, "DAPO's filter"),
            *(
                place
                for pool in (INTERFERENCE, SHARED, SKILLS)
                for place in learning("rollouts to shuffle's end", pool, "DAPO's filter")
            ),
        ],
    ),
    (
        "methods.md",
        "On reasoning gym {} and {} of the tasks that they choose are effective, of those of BOTS {}; their log "
        "loss is {} and {}, that of `pass` {}.",
        [
            ("methods", "recorded", (REASONING, method), heading)
            for heading, methods in (
                (ETR, ("MoPPS", "Kalman filter", BOTS)),
                (LOSS, ("MoPPS", "Kalman filter", PASS)),
            )
            for method in methods
        ],
    ),
    (
        "methods.md",
        "there the tasks that they choose in the last quarter are solved {}, {} and {} of the time, those of "
        "the tracker with Thompson sampling {}.",
        [("methods", "recorded", (REASONING, method), LAST) for method in ("MoPPS", "Kalman filter", BOTS, THOMPSON)],
    ),
    (
        "methods.md",
        "With the true probabilities, {} and {} of the tasks that `pass` takes on the recorded pools would be "
        "effective; with the tracker's belief {} and {} are.",
        recorded(ETR, "oracle, pass", PASS),
    ),
    (
        "sizes.md",
        "With 1,000 tasks {} of those that the tracker selects by Thompson sampling are effective, and with a "
        "million {}; by `pass` {} and {}, with BOTS {} and {}, with uniform choice {} and {}.",
        [
            place
            for method in (THOMPSON, PASS, BOTS, "uniform")
            for tasks in ("1000", "1000000")
            for place in size(ETR, "tasks", tasks, method)
        ],
    ),
    (
        "sizes.md",
        "With 8 or 512 tasks a step it is {} and {} by `pass`, and {} and {} with BOTS.",
        [place for method in (PASS, BOTS) for batch in ("8", "512") for place in size(ETR, "batch", batch, method)],
    ),
    (
        "sizes.md",
        "The log loss of BOTS is {} with one rollout, {} with 4, {} with 16 and {} with 64.",
        [place for rollouts in ("1", "4", "16", "64") for place in size(LOSS, "rollouts", rollouts, BOTS)],
    ),
    (
        "sizes.md",
        "That of the tracker with `pass` is {}, {}, {} and {}.",
        [place for rollouts in ("1", "4", "16", "64") for place in size(LOSS, "rollouts", rollouts, PASS)],
    ),
    (
        "sizes.md",
        "With 4 rollouts the tracker finds {} times as many effective tasks as uniform choice by Thompson "
        "sampling, and {} times by `pass`; BOTS {} times. With 64 it is {}, {} and {} times.",
        [
            place
            for rollouts in ("4", "64")
            for place in size("ETR, times uniform's", "rollouts", rollouts, THOMPSON, PASS, BOTS)
        ],
    ),
    (
        "sizes.md",
        "of 1,000 tasks, the tracker with Thompson sampling chose {}, BOTS {} and `pass` {}.",
        size("distinct tasks", "tasks", "1000", THOMPSON, BOTS, PASS),
    ),
    (
        "sizes.md",
        "with `rollouts_per_task` 16, its tasks have a teaching of {}, without {}, as uniform choice has {}.",
        size("teaching", "rollouts", "1", "tracker, pass for groups of 16", PASS, "uniform"),
    ),
    (
        "rewards.md",
        "With a bonus for the form, {} and {} of its groups on the two pools have both right and wrong answers, "
        "where it is {} and {} with plain rewards.",
        [*reward(RIGHT, "bonus for form", PASS), *reward(RIGHT, "right or wrong", PASS)],
    ),
    (
        "rewards.md",
        "With counts it is {} and {}.",
        reward(RIGHT, "bonus for form, with counts", PASS),
    ),
    (
        "rewards.md",
        "The share with both falls to {} and {}; a uniform choice has {} and {}.",
        reward(RIGHT, "verdicts flipped", PASS, "uniform"),
    ),
    (
        "rewards.md",
        "BOTS has {} and {}, the tracker {} and {}.",
        reward(RIGHT, "verdicts flipped", BOTS, THOMPSON),
    ),
    (
        "rewards.md",
        "In the last quarter, the tracker with Thompson sampling chooses tasks that are solved {} and {} of the time.",
        reward(LAST, "partial credit", THOMPSON),
    ),
    (
        "rewards.md",
        "On reasoning gym {} of its groups have both right and wrong answers, hardly more than with uniform "
        "choice ({}).",
        [("rewards", "rewards", (REASONING, "partial credit", method), RIGHT) for method in (THOMPSON, "uniform")],
    ),
    (
        "rewards.md",
        "With rare successes on reasoning gym, uniform choice finds {}, BOTS {}, `pass` {} and the tracker with "
        "Thompson sampling {}.",
        [
            ("rewards", "rewards", (REASONING, "rare successes", method), RIGHT)
            for method in ("uniform", BOTS, PASS, THOMPSON)
        ],
    ),
    (
        "overhead.md",
        "With a million tasks a selection takes {} ms and a report {} ms with BOTS, {} and {} ms with the tracker and "
        "`pass`; in the published form of BOTS, which is dense, {} and {} ms.",
        [place for method in (BOTS, PASS, DENSE) for place in overhead("1000000", method, "select, ms", "report, ms")],
    ),
    (
        "overhead.md",
        "with 1,000 tasks a selection takes {} ms there and a report {} ms, with BOTS in the service {} and {} ms.",
        [place for method in (DENSE, BOTS) for place in overhead("1000", method, "select, ms", "report, ms")],
    ),
]

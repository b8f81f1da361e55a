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


def wanted(table: str, heading: str, *rows: tuple[str, ...]) -> list[Place]:
    """Figures of rows of a table of wishes for effective groups."""
    return [("wanted", table, row, heading) for row in rows]


def shared_out(heading: str, *rows: tuple[str, ...], table: str = "rules") -> list[Place]:
    """Figures of rows of a table of budgets of rollouts."""
    return [("budget", table, row, heading) for row in rows]


ENOUGH, TIMES, GROUPS = "as many tasks as are enough", "rollouts, times shuffle's", "groups, times a constant number's"
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
    (
        "wanted.md",
        "32 effective groups were reached in {} of the steps on the recorded run and in {} on reasoning gym, without"
        " references in {} and {}.** On the pools that react to training it was {}, {}, {} and {}.",
        wanted(
            "reached",
            "reached",
            (RECORDED, "as measured"),
            (REASONING, "as measured"),
            (RECORDED, "none"),
            (REASONING, "none"),
            (SHARED, "as measured"),
            (SKILLS, "as measured"),
            (INTERFERENCE, "as measured"),
            (MEMORISING, "as measured"),
        ),
    ),
    (
        "wanted.md",
        "it made {} times the rollouts on the recorded run and {} times on reasoning gym, in {} and {} rounds"
        " instead of {} and {}. Three times as many groups in each round, DAPO's own configuration, took {} "
        "and {} times the rollouts of the shuffle. `pass` alone, still in whole rounds, took {} and {} times.",
        [
            *wanted("rounds", TIMES, (RECORDED, ENOUGH), (REASONING, ENOUGH)),
            *wanted(
                "rounds", "rounds", *((pool, run) for run in (ENOUGH, "shuffle") for pool in (RECORDED, REASONING))
            ),
            *wanted(
                "rounds",
                TIMES,
                *((pool, run) for run in ("shuffle, three times as many", "pass") for pool in (RECORDED, REASONING)),
            ),
        ],
    ),
    (
        "wanted.md",
        "On reasoning gym {} of the steps reached their groups if the model changes in the middle of the run,"
        " and {} if it falls back",
        wanted("reached", "reached", (REASONING, "sudden"), (REASONING, "collapsing")),
    ),
    (
        "wanted.md",
        "With 0.5 it was {} on the recorded run and {} on reasoning gym, with 0.99 it was {} and {}",
        wanted("sizes", "reached", *((pool, "32", sure) for sure in ("0.5", "0.99") for pool in (RECORDED, REASONING))),
    ),
    (
        "budget.md",
        "`pass` with a budget has {}, {} and {} times the effective groups of a constant number on the "
        "recorded run (4, 8 and 16 rollouts on average), and {}, {} and {} times on reasoning gym. With "
        "uniform choice it is {}, {} and {} times, and {}, {} and {} times.",
        shared_out(
            GROUPS,
            *(
                (pool, strategy, mean, "shared out")
                for strategy in ("pass", "uniform")
                for pool in (RECORDED, REASONING)
                for mean in ("4", "8", "16")
            ),
        ),
    ),
    (
        "budget.md",
        "knows every success probability has {} times the groups on the recorded run by `pass` with 16 rollouts.",
        shared_out(GROUPS, (RECORDED, "pass", "16", "shared out by an oracle")),
    ),
    (
        "budget.md",
        "With uniform choice the oracle has {} times with 4 rollouts, and {} times on reasoning gym. -",
        shared_out(GROUPS, *((pool, "uniform", "4", "shared out by an oracle") for pool in (RECORDED, REASONING))),
    ),
    (
        "budget.md",
        "On reasoning gym with 16 rollouts the oracle by `pass` has {} times the groups",
        shared_out(GROUPS, (REASONING, "pass", "16", "shared out by an oracle")),
    ),
    (
        "budget.md",
        "{} groups are effective with 32 tasks, {} with 64 and {} with 128 on the recorded run, and {}, {} and {} on"
        " reasoning gym.",
        shared_out(
            "groups a step",
            *(
                (pool, tasks, mean, "constant")
                for pool in (RECORDED, REASONING)
                for tasks, mean in (("32", "16"), ("64", "8"), ("128", "4"))
            ),
            table="tasks",
        ),
    ),
    (
        "budget.md",
        "On reasoning gym sharing out raises teaching {} times with 4 rollouts by `pass`",
        shared_out("teaching, times", (REASONING, "pass", "4", "shared out")),
    ),
    (
        "budget.md",
        "On the recorded run with 16 it falls to {} times",
        shared_out("teaching, times", (RECORDED, "pass", "16", "shared out")),
    ),
]

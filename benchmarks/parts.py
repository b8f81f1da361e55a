"""Which part of the work each module does, in words: where the time of a profile is counted.

Parts are given by module, so that renames inside a module change nothing. Where one module does two things, the
functions imported here tell them apart: a rename then breaks the import, and not the figures. A module without a part
counts as OTHER, which tests/benchmarks/test_profiles.py keeps small.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bots_service.core.belief.protocol import Belief
from bots_service.core.receipt import calibration, prediction_error

OTHER = "other"

Function = tuple[str, int, str]  # file, line, name
Calls = tuple[int, int, float, float, dict[Function, tuple[int, int, float, float]]]  # as in pstats
Stack = list[tuple[str, str]]  # file and name of each function, the outermost first


@dataclass(frozen=True, slots=True)
class Part:
    """Some modules, and what they do. modules: how their paths begin. functions: only these of them; none: all."""

    name: str
    modules: tuple[str, ...]
    functions: frozenset[str] = frozenset()

    def holds(self, module: str, function: str) -> bool:
        """Return whether a function belongs here."""
        return module.startswith(self.modules) and (not self.functions or function in self.functions)


@dataclass(frozen=True, slots=True)
class Map:
    """How the time of one kernel is divided among what its outermost modules call.

    outermost: the modules that only put other parts together. own: what their own time is for.
    """

    own: str
    outermost: tuple[str, ...]
    parts: tuple[Part, ...]

    def part(self, function: Function) -> str:
        """Return the part of a function that an outermost module calls."""
        path = module(function[0])
        # Of libraries, and of our own that only wrap them: the time is that of their caller.
        if path is None or path.startswith(WRAPPERS):
            return self.own
        return next((part.name for part in self.parts if part.holds(path, function[2])), OTHER)

    def puts_together(self, function: Function) -> bool:
        """Return whether a function is of an outermost module."""
        path = module(function[0])
        return path is not None and path.startswith(self.outermost)


CALLERS = ("benchmarks/",)  # the calls begin there
WRAPPERS = ("core/arrays", "core/checks", "core/portable_math", "core/segments", "errors")
EXPECTED = Part("what the belief expected", ("core/belief/",), frozenset({Belief.distributions.__name__}))
SCORES = Part(
    "scores (Brier, log loss)", ("core/receipt",), frozenset({prediction_error.__name__, calibration.__name__})
)
UPDATE = Map(
    "putting the state together",
    (*CALLERS, "core/state", "core/entries"),
    (
        EXPECTED,
        SCORES,
        Part("fold of the belief", ("core/belief/",)),
        Part("forecasts", ("core/forecasts",)),
        Part("guard of the verifier", ("core/guard/",)),
        Part("tallies", ("core/receipt", "core/totals", "core/attempts")),
        Part("evidence of the step", ("core/open_step", "core/evidence", "core/pool")),
        Part("passes and the mix", ("core/walks", "core/mix")),
    ),
)
FOLD = Map(
    "arithmetic of the belief",
    (*CALLERS, "core/belief/bots", "core/belief/tracker.py"),
    (
        Part("capability", ("core/belief/capability", "core/belief/implied_spread")),
        Part("evidence of each tried task", ("core/belief/tried", "core/rows", "core/task_table")),
        Part("filter over the features", ("core/belief/tracker_filter", "core/belief/logit_normals")),
        Part("evidence of the step", ("core/belief/protocol", "core/evidence")),
        Part("features and profiles of the pool", ("core/pool", "core/cells", "core/predictions", "core/offset_tags")),
    ),
)
SELECT = Map(
    "the draw",
    (*CALLERS, "core/draw/", "usecases/select_tasks", "core/state"),
    (
        Part("what the belief expects", ("core/belief/",)),
        Part("order of the tasks", ("core/permutation", "core/walks")),
        Part("which tasks are free", ("core/attempts", "core/guard/", "core/resting", "core/rows", "core/task_table")),
        Part("profiles of the pool", ("core/pool", "core/cells", "core/predictions", "core/offset_tags")),
        Part("the mix", ("core/mix",)),
    ),
)
KERNELS = {"update": UPDATE, "fold": FOLD, "select": SELECT, "pass": SELECT, "spaced": SELECT}

# Of a service.
SERVICE = (
    Part("draw", ("core/draw/",)),
    Part("fold", ("core/state",)),
    Part("encoding of states and rows", ("core/codec", "storage/sql/codecs")),
    Part("metrics and logs", ("metrics/", "spans", "tracing", "structlog/", "logging/", "prometheus_client/")),
    Part("Redis", ("storage/redis/", "redis/", "hiredis/")),
    Part("leases and states in memory", ("storage/memory",)),
    Part("SQL", ("storage/", "stores", "sqlalchemy/", "psycopg/", "psycopg_binary/", "psycopg_pool/", "sqlite3/")),
    Part("use case", ("core/", "usecases/", "engine/", "ports/")),
    Part("HTTP and parsing", ("api/", "serving/", "uvicorn/", "starlette/", "fastapi/", "msgspec/", "anyio/")),
    Part("event loop and threads", ("asyncio/", "concurrent/", "threading.py", "uvloop/", "queue.py", "selectors.py")),
)


def time_by_part(calls: Mapping[Function, Calls], kernel: Map) -> dict[str, float]:
    """Return the seconds of each part: what outermost modules took themselves, and what each of their calls took.

    Args:
        calls: what cProfile counted, in the shape of pstats.
        kernel: how to divide it.
    """
    seconds = defaultdict[str, float](float)
    for function, (_, _, own, _, callers) in calls.items():
        if kernel.puts_together(function):
            seconds[kernel.own] += own
            continue
        for caller, (_, _, _, whole) in callers.items():
            if kernel.puts_together(caller):
                seconds[kernel.part(function)] += whole
    return seconds


def samples_by_part(stacks: Iterable[tuple[Stack, int]]) -> Counter[str]:
    """Return how many samples of a service each part has."""
    samples = Counter[str]()
    for stack, count in stacks:
        samples[_part_of(stack)] += count
    return samples


def _part_of(stack: Stack) -> str:
    """Return the part of the innermost function that has one; in the core, which calls nothing else, the outermost."""
    inwards = [(module(path) or path, function) for path, function in stack]
    core = [one for one in inwards if one[0].startswith("core/")]
    for inside, function in (*core, *reversed(inwards)):
        for part in SERVICE:
            if part.holds(inside, function):
                return part.name
    return OTHER


def shares(amounts: Mapping[str, float]) -> dict[str, float]:
    """Return what share of the whole each is, largest first."""
    whole = sum(amounts.values())
    return {name: amount / whole for name, amount in sorted(amounts.items(), key=lambda one: -one[1]) if amount}


def module(path: str) -> str | None:
    """Return where a file lies in the service, as in "core/state.py", or in the benchmarks; None: it is a library's."""
    for root, kept in (("bots_service/", ""), ("benchmarks/", "benchmarks/")):
        before, found, inside = path.rpartition(root)
        if found and (not before or before.endswith("/")):
            return kept + inside
    return None

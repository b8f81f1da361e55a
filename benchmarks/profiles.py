"""Profiles of the loads that decided promises which are not reached."""

import cProfile
import pstats
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, cast

from benchmarks.bench import LoadRow
from benchmarks.cluster import ClusterRow
from benchmarks.kernels import call_of
from benchmarks.load import RefusedError
from benchmarks.machine import cores
from benchmarks.parts import KERNELS, Calls, Function, samples_by_part, shares, time_by_part
from benchmarks.sampling import Samples, sampling
from benchmarks.targets import KernelCase, Target
from benchmarks.timing import timed_ms

CALLS_S = 0.5
FEWEST, MOST = 5, 200  # calls
LONG_S = 50e-6  # longer than a call of numpy takes on a few hundred numbers


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """What one call of a kernel does.

    ms: what it takes. profiled_ms: with the profiler, at best. may_take_ms: by the promise, if all else stays as it is.
    calls: of functions, Python's and compiled ones. numpy_calls: of these numpy's; its operators are not seen.
    long_calls: those of functions that took more than LONG_S on average, and long_share: their share of the time.
    shares: of the time, by part; they add up to 1. The profiler adds to each call, so short calls look longer.
    """

    promise: str
    where: str
    ms: float
    profiled_ms: float
    may_take_ms: float
    calls: float
    numpy_calls: float
    long_calls: float
    long_share: float
    shares: dict[str, float]


@dataclass(frozen=True, slots=True)
class LoadProfile:
    """What bounds a load of requests.

    per_second: requests. wanted: of these by the promise; None where it is about something else.
    processors_ms: processor time of each request, by process, in the load that decided.
    services: how many share the load. cores: of the machine.
    shares: of the time that one service ran Python, by part; they add up to 1. They are of the same load once more,
        since sampling takes time of its own; empty where nothing was seen, and problem says why.
    """

    promise: str
    where: str
    per_second: float
    wanted: float | None
    processors_ms: dict[str, float]
    services: int
    cores: int
    samples: int
    shares: dict[str, float]
    problem: str = ""

    @property
    def processor_ms(self) -> float:
        """Processor time of each request, of all together."""
        return sum(self.processors_ms.values())

    @property
    def cores_taken(self) -> float:
        """How many cores all together kept busy."""
        return self.per_second * self.processor_ms / 1e3

    def at_most(self, *names: str, cores: float) -> float:
        """Return how many requests a second so many cores could do, if these processes alone ran on them."""
        return 1e3 * cores / sum(self.processors_ms[name] for name in names)


Profile = KernelProfile | LoadProfile
Watching = AbstractAsyncContextManager[object]


def profile_kernel(target: Target, case: KernelCase) -> KernelProfile:
    """Repeat what decided a promise about kernels, and profile it."""
    calls, done = profiled(call_of(case.row, case.belief))
    whole_s = sum(own for _, _, own, *_ in calls.values())
    numpys = [counted for (file, _, name), (_, counted, *_) in calls.items() if "numpy" in file or "numpy" in name]
    owns = [(counted, own) for _, counted, own, *_ in calls.values()]
    long = [(counted, own) for counted, own in owns if own > LONG_S * counted]
    assert target.measured is not None
    ratio = target.measured / target.wanted if target.at_least else target.wanted / target.measured
    return KernelProfile(
        promise=target.promise,
        where=target.where,
        ms=case.median_ms,
        profiled_ms=1e3 * whole_s / done,
        may_take_ms=case.median_ms * ratio,
        calls=sum(counted for counted, _ in owns) / done,
        numpy_calls=sum(numpys) / done,
        long_calls=sum(counted for counted, _ in long) / done,
        long_share=sum(own for _, own in long) / whole_s,
        shares=shares(time_by_part(calls, KERNELS[case.row.kind])),
    )


def profiled(call: Callable[[], object]) -> tuple[Mapping[Function, Calls], int]:
    """Return what cProfile counts in some calls, and how many they were.

    They are the fastest quarter of those made: other work on the machine disturbs the slower ones.
    """
    call()
    end, timed = time.perf_counter() + CALLS_S, list[tuple[float, cProfile.Profile]]()
    while len(timed) < FEWEST or (len(timed) < MOST and time.perf_counter() < end):
        profiler = cProfile.Profile()
        timed.append((timed_ms(partial(profiler.runcall, call)), profiler))
    kept = [profiler for _, profiler in sorted(timed, key=itemgetter(0))[: -(-len(timed) // 4)]]
    stats = cast(Any, pstats.Stats(*kept)).stats
    return {function: calls for function, calls in stats.items() if "_lsprof" not in function[2]}, len(kept)


async def profile_load(
    target: Target, case: LoadRow | ClusterRow, pids: list[int], repeat: Callable[[Watching], Awaitable[None]]
) -> LoadProfile:
    """Put the load that decided a promise on services once more, and sample the first of them.

    Args:
        target: the promise.
        case: the load that decided it.
        pids: of the services.
        repeat: puts the load on them, and has it watched.
    """
    samples = Samples()
    try:
        await repeat(sampling(pids[0], samples))
    except (ConnectionError, RefusedError) as error:  # all that was measured before shall be kept
        samples.problem = f"the load failed when it was repeated ({error})"
    load = case.load if isinstance(case, ClusterRow) else case
    parts = samples_by_part(samples.stacks)
    return LoadProfile(
        promise=target.promise,
        where=target.where,
        per_second=load.per_second,
        wanted=target.wanted if target.unit == "/s" else None,
        processors_ms=load.processors_ms,
        services=len(pids),
        cores=cores(),
        samples=parts.total(),
        shares=shares(parts),
        problem=samples.problem,
    )

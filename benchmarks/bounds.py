"""What bounds the promises that are not reached, in words: each sentence says what its profile measured."""

from collections.abc import Iterator

from benchmarks.bench import CALLERS, SERVICE
from benchmarks.profiles import LONG_S, KernelProfile, LoadProfile, Profile
from benchmarks.targets import Target

BUSY = 0.85  # of the machine's cores: the rest is what a load leaves idle while it waits for its own answers
ONE_CORE = 0.7  # of a core for each service: Python runs on one core at a time, and waits between requests
MOSTLY = 0.5  # of the time
SHOWN = 0.02  # of the time: smaller parts are added up


def bounds(missed: list[Target], profiles: list[Profile]) -> Iterator[tuple[str, str]]:
    """Yield each promise that is not reached, with what bounds it."""
    found = {profile.promise: profile for profile in profiles}
    for target in missed:
        profile = found.get(target.promise)
        if profile is None:
            yield target.promise, "It has no profile: this run did not make one."
        elif isinstance(profile, KernelProfile):
            yield target.promise, " ".join(of_kernel(profile))
        else:
            yield target.promise, " ".join(of_load(profile))


def of_kernel(profile: KernelProfile) -> Iterator[str]:
    """Yield what bounds a kernel, sentence by sentence."""
    best = f"with the profiler, at best, {profile.profiled_ms:.2f} ms"
    yield f"One call takes {profile.ms:.2f} ms ({profile.where}; {best})."
    yield f"The promise allows {profile.may_take_ms:.2f} ms."
    yield f"It makes {profile.calls:,.0f} calls of functions, {profile.numpy_calls:,.0f} of them numpy's."
    if profile.long_share > MOSTLY:
        yield (
            f"Work on long arrays bounds it: {profile.long_calls:.0f} calls of more than {1e6 * LONG_S:.0f} µs "
            f"take {profile.long_share:.0%} of the time."
        )
    else:
        each_us, room = 1e3 * profile.ms / profile.calls, profile.may_take_ms / profile.ms * profile.calls
        yield (
            f"The number of short calls bounds it: they take {each_us:.1f} µs on average, "
            f"and the promise has room for {room:,.0f}."
        )
    yield f"Share of the time: {_parts(profile.shares)}."


def of_load(profile: LoadProfile) -> Iterator[str]:
    """Yield what bounds a load, sentence by sentence."""
    each = ", ".join(f"{_process(name, profile)} {ms:.2f}" for name, ms in _largest(profile.processors_ms))
    yield (
        f"One request takes {profile.processor_ms:.2f} ms of processor time ({profile.where}): {each}. "
        f"{profile.per_second:,.0f} a second keep {profile.cores_taken:.2f} of {profile.cores} cores busy."
    )
    yield _bound(profile)
    if profile.wanted is not None:
        yield f"{profile.wanted:,.0f} a second leave {1e3 * profile.cores / profile.wanted:.2f} ms for a request."
    alone = profile.at_most(SERVICE, cores=profile.services)
    own = "a core of its own" if profile.services == 1 else "a core each and nothing else"
    yield f"With {own}, {_services(profile)} could do at most {alone:,.0f} a second."
    if profile.shares:
        yield f"Share of the time in which {_one_of(profile)} runs Python: {_parts(profile.shares)}."
    else:
        yield f"The service was not sampled: {profile.problem}."


def _bound(profile: LoadProfile) -> str:
    most = profile.at_most(*profile.processors_ms, cores=profile.cores)
    taken = profile.per_second * profile.processors_ms[SERVICE] / 1e3 / profile.services
    if profile.cores_taken > BUSY * profile.cores:
        return f"The processor bounds it: here, {most:,.0f} a second are the most."
    if taken > ONE_CORE:
        return f"The service's one process bounds it: it keeps {taken:.2f} of a core busy."
    return (
        f"Waiting bounds it, for the disk, for each other or for other work on the machine: "
        f"the processor would do {most:,.0f} a second."
    )


def _process(name: str, profile: LoadProfile) -> str:
    return {SERVICE: _services(profile), CALLERS: "the callers"}.get(name, name)


def _services(profile: LoadProfile) -> str:
    return "the service" if profile.services == 1 else f"the {profile.services} services"


def _one_of(profile: LoadProfile) -> str:
    return "the service" if profile.services == 1 else "one of the services"


def _parts(shares: dict[str, float]) -> str:
    shown = {name: share for name, share in shares.items() if share >= SHOWN}
    rest = sum(shares.values()) - sum(shown.values())
    words = [f"{name} {share:.0%}" for name, share in shown.items()]
    return ", ".join([*words, *([f"the rest {rest:.0%}"] if rest >= 0.005 else [])])


def _largest(amounts: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(amounts.items(), key=lambda one: -one[1])

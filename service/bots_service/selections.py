"""Selections: which tasks to try next, drawn from a state; and their ids, which carry where they were drawn."""

import asyncio
import hashlib
import re
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from bots_service.core.arrays import Tasks, united
from bots_service.core.draw import (
    GUESSES,
    LARGEST_COUNT,
    LEAST_CHANCE,
    MOST_TIMES,
    DrawContext,
    DrawnTasks,
    NamedTasks,
    SelectRequest,
    enough_tasks,
    select_tasks,
)
from bots_service.core.pool import Pool
from bots_service.core.state import RunState
from bots_service.core.walks import Walk, walk_numbers
from bots_service.datasets import OpenRun, unknown_tasks
from bots_service.errors import Flaw, InvalidSelectionError
from bots_service.records import OpenDataset, RunRow, Selection
from bots_service.storage.live import Look

# A draw that looks at so many numbers takes a millisecond or two, and 10 to 17 ms where nothing teaches any more. In a
# thread it would take far longer while others want the interpreter's lock: numpy lets go of it at every step, and each
# time must wait to get it back.
QUICK_NUMBERS = 16_000
QUICK_PER_WANTED = 10  # a task that is chosen costs as much as so many that are looked at


async def drawn(request: SelectRequest, run: OpenRun, state: RunState, look: Look, named: NamedTasks) -> Selection:
    """Return a selection, drawn in a thread where that takes longer than the event loop may be held up."""
    if is_quick(request, state, run.dataset.pool, look.leased):
        return draw(request, run, state, look, named)
    return await asyncio.to_thread(draw, request, run, state, look, named)


def is_quick(request: SelectRequest, state: RunState, pool: Pool, leased: Tasks) -> bool:
    """Say whether a draw never looks at the whole pool, nor at too many numbers, as the ordinary one does not."""
    if not pool.is_grouped or request.tags:
        return False
    if state.settings.mix or state.settings.strategy not in ("thompson", "pass"):
        return False
    count, draws = (request.count, 1) if request.count else (2 * (request.want_effective or 1), GUESSES)
    looked_at = len(leased) + draws * QUICK_PER_WANTED * count
    if looked_at > QUICK_NUMBERS:
        return False
    if state.settings.strategy == "pass":  # it meets retired tasks too
        part = pool.part()
        looked_at += draws * int(count / LEAST_CHANCE * part.carrier_count / max(len(part), 1))
    else:
        looked_at += draws * (pool.profiles + len(state.belief.own_tasks))
    return looked_at <= QUICK_NUMBERS


def draw(request: SelectRequest, run: OpenRun, state: RunState, look: Look, named: NamedTasks) -> Selection:
    """Return a selection that follows from its arguments alone.

    The seed is the run's, the epoch, the seq, and the number of selections at that seq: same journal and same calls
    give the same tasks.
    """
    pool = run.dataset.pool
    # Another replica may have leased tasks that it appended, and that this one has not heard of yet.
    leased = look.leased[look.leased < len(pool)]

    def select(count: int) -> DrawnTasks:
        asked, context = replace(request, count=count), context_of(state, seeded(state, look.ordinal))
        return select_tasks(state.belief, pool, asked, context, named=named, leased=leased)

    def expected(count: int) -> float:
        believed = state.belief.distributions(pool, select(count).tasks)
        return float(believed.effective(state.group_size).sum())

    count = request.count
    if count is None:
        part, wanted = pool.part(request.tags), request.want_effective or 1
        available = len(part) - len(part.keep(named.excluded))
        count = enough_tasks(expected, wanted, max(min(MOST_TIMES * wanted, LARGEST_COUNT, available), 1))
    drawn = select(count)
    believed = state.belief.distributions(pool, drawn.tasks)
    return Selection(
        id=write_id(run.row, Origin(state.epoch, state.step, state.seq, look.ordinal, drawn.walks)),
        epoch=state.epoch,
        step=state.step,
        seq=state.seq,
        degraded=look.degraded,
        reused=drawn.reused,
        tasks=drawn.tasks,
        draws=drawn.draws,
        means=believed.mean,
        effective=believed.effective(state.group_size),
    )


def seeded(state: RunState, *place: int) -> np.random.Generator:
    """Return random numbers of a run's selection; of one state each place has its own."""
    return np.random.default_rng([state.settings.seed, state.epoch, state.seq, *place])


def context_of(state: RunState, rng: np.random.Generator) -> DrawContext:
    return DrawContext(
        settings=state.settings,
        rng=rng,
        walks=state.walks,
        group_size=state.group_size,
        step=state.step,
        mix=state.mix,
        attempts=state.attempts,
        aborts=state.aborts,
    )


def named_tasks(request: SelectRequest, dataset: OpenDataset) -> NamedTasks:
    """Return the tasks that the request names, once it is possible for this dataset.

    Raises InvalidSelectionError: a tag or a task is unknown, or the count is not clear.
    """
    if (request.count is None) == (request.want_effective is None):
        flaw = Flaw(("body", "count"), "give either count or want_effective")
        raise InvalidSelectionError("invalid selection", (flaw,))
    flaws = [
        Flaw(("body", "tags", place), f"no task has the tag {tag!r}")
        for place, tag in enumerate(request.tags)
        if tag not in dataset.pool.tags
    ]
    wanted = tuple(dict.fromkeys(request.first))
    excluded, first = dataset.ids.find(request.exclude), dataset.ids.find(wanted)
    for name, ids, found in (("exclude", request.exclude, excluded), ("first", wanted, first)):
        flaws += unknown_tasks(ids, found, "body", name)
    InvalidSelectionError.refuse("invalid selection", flaws)
    return NamedTasks(united(excluded), first)


LONGEST_ID = 4096  # characters: one of 33 walks, for 32 tags of a mix and the rest, has up to 1,300
# Numbers of bounded length: a state keeps them.
_PARTS = re.compile(r"[0-9]{1,15}(-[0-9]{1,15}){3}(-[0-9a-f]{1,8}(\.[0-9a-f]{1,8}){3})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a selection was made.

    epoch, step, seq: of the run's state; ordinal: how many selections were made at that seq before.
    walks: where its passes stood afterwards.
    """

    epoch: int
    step: int
    seq: int
    ordinal: int
    walks: tuple[Walk, ...] = ()


def write_id(run: RunRow, origin: Origin) -> str:
    """Return the selection's id, as in "0-12-12-3-5f2c9a01d4e6", or with a walk "0-12-12-3-0.1.a7.3c0-5f2c9a01d4e6"."""
    parts = [str(number) for number in (origin.epoch, origin.step, origin.seq, origin.ordinal)]
    parts += [".".join(f"{number:x}" for number in walk_numbers(walk)) for walk in origin.walks]
    numbers = "-".join(parts)
    return f"{numbers}-{_check(run, numbers)}"


def read_id(run: RunRow, selection_id: str) -> Origin:
    """Return where the selection was made. Raises InvalidSelectionError: this run did not give that id out."""
    numbers, _, check = selection_id.rpartition("-")
    parts = _PARTS.fullmatch(numbers)
    if parts is None or check != _check(run, numbers):
        flaw = Flaw(("body", "selection_id"), f"{selection_id[:80]!r} was not given out by run {run.name!r}")
        raise InvalidSelectionError("the selection is unknown", (flaw,))
    epoch, step, seq, ordinal, *walks = numbers.split("-")
    ends = (Walk(*(int(number, 16) for number in walk.split("."))) for walk in walks)
    return Origin(int(epoch), int(step), int(seq), int(ordinal), tuple(ends))


def _check(run: RunRow, numbers: str) -> str:
    """Return a mark that only this run's ids carry. It guards against mix-ups, not against forgery."""
    return hashlib.blake2b(f"{run.uid} {numbers}".encode(), digest_size=6).hexdigest()

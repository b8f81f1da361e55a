"""The tasks of a dataset as arrays: profiles, tags, and who is retired.

A profile is a set of tasks with the same reference pass rates and the same offset tags. Until one of them is tried,
nothing here tells them apart, so the fold and the draw look at each profile once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import NO_TASKS, Bits, Counts, Flags, Floats, Tasks, frozen, united
from bots_service.core.portable_math import log
from bots_service.core.walks import WHOLE, key_of

# Parts of a pool that are kept ready: one for each set of tags that selections ask for, and for each tag of a mix. A
# part takes 1 byte a task of the pool and 8 bytes a task of its own: for a pool of 1e7 and a mix of 32 tags about
# half a GB.
PARTS_KEPT = 48
REFERENCE_TRIALS = 16.0  # a pass rate counts as that of so many rollouts, with half a success and a failure more
MOST_WATCHED = 128  # tags; they take a byte a task for each 8


@dataclass(frozen=True)
class Part:
    """Some of a pool's tasks, ready to be chosen from: those of profile g are `order[starts[g]:starts[g + 1]]`.

    references: [G, M] the pool's; order: [n], ascending within a profile; starts: [G + 1].
    included: [N] whether each task of the pool is one of them.
    key: the same for the same tags, 0 for the whole pool; None for listed tasks.
    carriers: the tasks with the part's tags and of the pool's subset, also retired ones, sorted; None: all, or listed.
    """

    references: Floats
    order: Tasks
    starts: Counts
    included: Flags
    key: int | None = None
    carriers: Tasks | None = None

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def sizes(self) -> Counts:
        """[G] how many of each profile's tasks are here."""
        return frozen(np.diff(self.starts))

    @property
    def carrier_count(self) -> int:
        """How many tasks carry the part's tags and are of its subset, retired ones included."""
        return len(self.included if self.carriers is None else self.carriers)

    def keep(self, tasks: Tasks) -> Tasks:
        """Return those of the given tasks that are in this part, in their order."""
        return tasks.compress(self.included.take(tasks))

    def holds(self, tasks: Tasks) -> Flags:
        """[n] whether each of the given tasks is in this part."""
        return self.included.take(tasks)


UNKNOWN_VARIANCE = 4.0  # of logits
SLOPE_DRIFT, TAG_DRIFT = 0.1, 0.5  # times the ability's


class Known(NamedTuple):
    """What is known of profiles, in D columns, and what each may do to the logits before any evidence.

    names: of the effects; features: [D, G] logits of pass rates, 0 where unknown; 1 where that is so, or of a tag.
    priors: [D, 3] mean and variance of each effect, and the variance that it gains a step, as a share of the ability's.
    """

    names: tuple[str, ...]
    priors: NDArray[np.float64]
    features: NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """The tasks of one dataset at one version. Append-only: tasks and profiles keep their numbers.

    references: [G, M] pass rates of M reference models, weakest first; NaN where unknown.
    profile_of: [N] the profile of each task; tags: for each, the sorted tasks that carry it; retired: sorted tasks.
    offset_tags: [T] the tags that tell profiles apart, besides the references.
    carried: [G] one number a profile; its bit t is set where the profile's tasks carry `offset_tags[t]`.
    subset: name and sorted tasks of the subset that is handed out: its other tasks are all retired; None: no subset.
    """

    references: Floats
    profile_of: Tasks
    tags: dict[str, Tasks] = field(default_factory=dict)
    retired: Tasks = field(default_factory=lambda: NO_TASKS)
    offset_tags: tuple[str, ...] = ()
    carried: Bits = field(default_factory=lambda: frozen(np.empty(0, np.uint32)))
    subset: tuple[str, Tasks] | None = None

    def __len__(self) -> int:
        return len(self.profile_of)

    @classmethod
    def of_tasks(
        cls, references: Floats, tags: Mapping[str, Tasks] | None = None, offset_tags: tuple[str, ...] = ()
    ) -> "Pool":
        """Return the pool of tasks with these pass rates, [N, M], none retired; with any NaN they are all unknown.

        tags: for each, the sorted tasks that carry it; offset_tags: those of them that tell profiles apart.
        """
        tags = dict(tags or {})
        carried = np.zeros(len(references), np.uint32)
        for bit, tag in enumerate(offset_tags):
            carried[tags[tag]] |= np.uint32(1 << bit)
        rows, carried, profile_of = number_profiles(references, carried)
        return cls(rows, profile_of, tags, offset_tags=offset_tags, carried=carried)

    @property
    def profiles(self) -> int:
        """How many profiles there are (G)."""
        return len(self.references)

    @property
    def models(self) -> int:
        """How many reference models there are (M)."""
        return int(self.references.shape[1])

    @cached_property
    def has_references(self) -> bool:
        """Whether all reference pass rates of any task are known: only those tell of tasks that were not tried."""
        return self.references.shape[1] > 0 and not bool(np.isnan(self.references).any(axis=1).all())

    @cached_property
    def alike(self) -> Counts:
        """[G] of each profile, the first one with the same reference pass rates."""
        if not self.offset_tags:
            return frozen(np.arange(self.profiles))
        ranks = _row_ranks(_comparable(self.references))
        return frozen(_first_rows(ranks)[ranks])

    @cached_property
    def ease(self) -> Counts:
        """[N] the place of each task by falling reference pass rates, the weakest model's first; unknown ones last."""
        places = np.empty(len(self), np.int64)
        ranks = _row_ranks(-_comparable(self.references))[self.profile_of]
        places[ranks.argsort(kind="stable")] = np.arange(len(self))
        return frozen(places)

    @cached_property
    def known(self) -> Known:
        """What is known of each profile: references and offset tags."""
        unknown, share = np.logical_or.reduce(np.isnan(self.references), axis=1), 1 / max(self.models, 1)
        columns: list[Any] = [("ability", (0.0, UNKNOWN_VARIANCE, 1.0), np.ones(self.profiles))]
        for place, rates in enumerate(self.references.T, 1):
            columns.append((f"slope_{place}", (share, share**2, SLOPE_DRIFT), _logits(rates, unknown)))
        columns.append(("unknown_offset", (0.0, UNKNOWN_VARIANCE, SLOPE_DRIFT), unknown))
        for bit, tag in enumerate(self.offset_tags):
            columns.append((f"tag_offset_{tag}", (0.0, 1.0, TAG_DRIFT), self.carried >> np.uint32(bit) & np.uint32(1)))
        names, priors, features = zip(*columns, strict=True)
        return Known(names, np.array(priors), frozen(np.array(features, np.float64)))

    @property
    def is_grouped(self) -> bool:
        """Whether the part without tags is ready already; the first who asks for it waits for a look at each task."""
        return "_whole" in vars(self)

    @cached_property
    def watched_tags(self) -> "WatchedTags":
        """The tags that the verifier guard watches: the offset tags, then those that tasks carried first.

        Not frequent ones: when tasks were appended before a fold is repeated, others may be more frequent.
        """
        carried_by_some = [tag for tag, tasks in self.tags.items() if len(tasks)]
        first = sorted(carried_by_some, key=lambda tag: (tag not in self.offset_tags, int(self.tags[tag][0]), tag))
        names = tuple(first[:MOST_WATCHED])
        carried = np.zeros((-(-len(names) // 8), len(self)), np.uint8)
        for number, tag in enumerate(names):
            carried[number // 8, self.tags[tag]] |= np.uint8(1 << number % 8)
        return WatchedTags(names, frozen(carried))

    def part(self, tags: tuple[str, ...] = (), also: str | None = None, but: tuple[str, ...] = ()) -> Part:
        """Return the tasks, not retired, that carry any of the tags (none: all), the tag `also`, and none of `but`.

        Kept for the next call: grouping a million tasks again would be too slow. ValueError: no task carries a tag.
        """
        if unknown := sorted({*tags, *([] if also is None else [also])} - self.tags.keys()):
            raise ValueError(f"no task is tagged {unknown}")
        if not tags and also is None and not but:
            return self._whole
        return self._parts(tuple(sorted(set(tags))), also, but)

    def listed(self, tasks: Tasks) -> Part:
        """Return the given tasks, sorted and distinct, as a part, which is not kept."""
        # Of a fresh array of zeros only the pages that are written to exist, so this costs no look at the whole pool.
        included = np.zeros(len(self), bool)
        included[tasks] = True
        return _grouped(self, tasks, included)

    def only(self, name: str, tasks: Tasks) -> "Pool":
        """Return the pool with all tasks outside a subset retired. tasks: of the subset, sorted and distinct."""
        others = np.delete(np.arange(len(self), dtype=np.int32), tasks)
        return replace(self, retired=frozen(united(self.retired, others)), subset=(name, tasks))

    @cached_property
    def _whole(self) -> Part:
        return _build_part(self, (), None, ())

    @cached_property
    def _parts(self) -> Callable[[tuple[str, ...], str | None, tuple[str, ...]], Part]:
        # From a copy of the pool without this cache: a cycle would keep old versions in memory for long.
        return lru_cache(maxsize=PARTS_KEPT)(partial(_build_part, replace(self)))


@dataclass(frozen=True, slots=True)
class WatchedTags:
    """Some of a pool's tags: [T] names, and [T / 8, N] bits of each task: bit b of row k says of tag 8 k + b."""

    names: tuple[str, ...]
    carried: NDArray[np.uint8]

    def carried_by(self, tasks: Tasks) -> NDArray[np.bool_]:
        """[T, n] whether each of the given tasks carries each tag."""
        bits = self.carried.take(tasks, axis=1)
        return np.unpackbits(bits, axis=0, count=len(self.names), bitorder="little").view(np.bool_)


def _grouped(pool: Pool, tasks: Tasks, included: Flags, key: int | None = None, carriers: Tasks | None = None) -> Part:
    """Return a part of these tasks, sorted and distinct, which are the included ones."""
    own = pool.profile_of[tasks]
    starts = np.zeros(pool.profiles + 1, np.int64)
    np.cumsum(np.bincount(own, minlength=pool.profiles), out=starts[1:])
    order = tasks[np.argsort(own, kind="stable")]
    return Part(pool.references, frozen(order), frozen(starts), frozen(included), key, carriers)


def number_profiles(references: Floats, carried: Bits) -> tuple[Floats, Bits, Tasks]:
    """Return [G, M] and [G] the distinct pairs of pass rates and tags, and [N] the number of each task's pair.

    Numbers follow first appearance: appending renumbers nothing. references: [N, M]; rows with any NaN count as equal,
    "unknown". carried: [N] which tags each task carries, one bit a tag.
    """
    # Adding 0.0 turns -0.0 into 0.0.
    rows = np.where(np.isnan(references).any(axis=1, keepdims=True), np.nan, references + 0.0)
    firsts, numbers = _numbered(np.column_stack([_comparable(rows), carried]))
    return frozen(rows[firsts]), frozen(carried[firsts]), numbers


def _numbered(table: Floats) -> tuple[Counts, Tasks]:
    """Number distinct rows by first appearance: [R] the first row of each number, and [n] the number of each row."""
    ranks = _row_ranks(table)
    firsts = _first_rows(ranks)
    numbers = np.empty(len(firsts), np.int32)
    numbers[np.argsort(firsts)] = np.arange(len(firsts), dtype=np.int32)
    return np.sort(firsts), frozen(numbers[ranks])


def _logits(rates: Floats, is_unknown: Flags) -> NDArray[np.float64]:
    """Return a logit of each pass rate, finite for 0 and 1; 0 where it is unknown."""
    counted = (REFERENCE_TRIALS * np.where(is_unknown, 0.5, rates) + 0.5) / (REFERENCE_TRIALS + 1.0)
    logits: NDArray[np.float64] = log(counted) - log(1.0 - counted)
    return logits


def _comparable(references: Floats) -> Floats:
    """Return the pass rates with -1 where they are unknown: NaN would differ from itself."""
    return np.where(np.isnan(references), -1.0, references)


def _row_ranks(table: Floats) -> Counts:
    """[n] the place of each row among the distinct rows, sorted by the first column, then by the second, and so on."""
    count, columns = table.shape
    order = np.lexsort(table.T[::-1]) if columns else np.arange(count)  # lexsort's last key counts most
    is_new = np.zeros(count, bool)
    is_new[1:] = (table[order[1:]] != table[order[:-1]]).any(axis=1)
    ranks = np.empty(count, np.int64)
    ranks[order] = np.cumsum(is_new)
    return ranks


def _first_rows(ranks: Counts) -> Counts:
    """[R] the first row of each rank."""
    firsts = np.empty(int(ranks.max(initial=-1)) + 1, np.int64)
    firsts[ranks[::-1]] = np.arange(len(ranks))[::-1]  # of several values for one place the last stays
    return firsts


def _build_part(pool: Pool, tags: tuple[str, ...], also: str | None, but: tuple[str, ...]) -> Part:
    included = np.full(len(pool), not tags)
    for tag in tags:
        included[pool.tags[tag]] = True
    if pool.subset is not None:
        included[np.delete(np.arange(len(pool)), pool.subset[1])] = False
    if also is not None:
        carries = np.zeros(len(pool), bool)
        carries[pool.tags[also]] = True
        included &= carries
    for tag in but:
        included[pool.tags.get(tag, NO_TASKS)] = False
    is_whole = not tags and also is None and not but and pool.subset is None
    carriers = None if is_whole else frozen(np.flatnonzero(included).astype(np.int32))
    limits = [f"but {tag}" for tag in but] + ([] if pool.subset is None else [f"in {pool.subset[0]}"])
    key = WHOLE if is_whole else key_of(*tags, "" if also is None else f"also {also}", *limits) % 2**32
    included[pool.retired] = False
    return _grouped(pool, np.flatnonzero(included).astype(np.int32), included, key, carriers)


MOST_OFFSET_TAGS = 16  # each makes the tracker's state and its fold larger
FEWEST_TASKS = 30  # that carry the tag: fewer hardly tell an offset from how tasks differ anyway
MOST_PROFILES = 2048  # a selection looks at each; or twice as many as without tags, where those are more


def choose_offset_tags(tags: Mapping[str, Tasks], profile_of: Tasks) -> tuple[str, ...]:
    """Return the most frequent tags that tell tasks apart, as many as keep the profiles few; the most frequent first.

    Of tags that the same tasks carry, the first by name stands for all. profile_of: [N], by pass rates alone.
    """
    groups, size = profile_of.astype(np.int64), int(profile_of.max(initial=-1)) + 1
    limit = max(MOST_PROFILES, 2 * size)
    frequent = [tag for tag, tasks in tags.items() if FEWEST_TASKS <= len(tasks) < len(profile_of)]
    chosen: list[str] = []
    for tag in sorted(frequent, key=lambda tag: (-len(tags[tag]), tag)):
        if any(np.array_equal(tags[tag], tags[other]) for other in chosen):
            continue
        halves = 2 * groups  # of each group, those without the tag, then those with it
        halves[tags[tag]] += 1
        is_there = np.zeros(2 * size, bool)
        is_there[halves] = True
        numbers = np.cumsum(is_there) - 1
        groups, size = numbers[halves], int(numbers[-1]) + 1
        if size > limit or len(chosen) == MOST_OFFSET_TAGS:
            break
        chosen.append(tag)
    return tuple(chosen)

"""What the tags of a run's mix were owed and given so far, and how often their tasks taught.

Part of the run's state. Shares are owed for what was reported, so replicas, retries and replays agree, a rewind takes
the account back, and what was aborted or never came back is owed again.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bots_service.core.arrays import Tasks, contained
from bots_service.core.checks import ROUNDING, as_count, as_number
from bots_service.core.evidence import Evidence
from bots_service.core.mix import Mix, shares_at
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings

MOST_OWED = 256.0  # tasks; what a tag that had no free task for long makes up for, once it has some again
WINDOW = 1000  # tasks after which 1/e of what was seen of a tag's groups still counts
TYPICAL_TASKS = 8.0  # a tag is taken to teach as often as all of them until about so many of its tasks were reported
NONE = -1  # the source of a task that carries no tag of the mix


@dataclass(frozen=True, slots=True)
class MixedTag:
    """The account of one tag of the mix.

    owed: tasks that its share came to; given: tasks of it that were reported.
    tried: tasks reported, earlier ones counting less; effective: those of them whose group has a gradient.
    """

    tag: str
    owed: float = 0.0
    given: int = 0
    tried: float = 0.0
    effective: float = 0.0

    @property
    def missing(self) -> float:
        """How many tasks of it were owed and not given; negative where it was given more."""
        return self.owed - self.given


MixAccount = tuple[MixedTag, ...]


@dataclass(frozen=True, slots=True)
class MixShare:
    """One tag of a run's mix.

    tag: the tag.
    share: the share of the tasks that it is owed now.
    owed: tasks that its share came to so far, of those reported.
    given: tasks that were reported and count for it.
    effective_task_ratio: how often a task of it was effective, recent ones counting most; while few were
        reported, shrunk to that of all tags.
    """

    tag: str
    share: float
    owed: float
    given: int
    effective_task_ratio: float


def sources_of(pool: Pool, mix: Mix, tasks: Tasks) -> Tasks:
    """Return [n] for each task the number of its tag in the mix: the first that it carries; NONE if it has none.

    Args:
        pool: the tasks.
        mix: tags in alphabetical order; tags that no task carries are passed over.
        tasks: [n] any.
    """
    sources = np.full(len(tasks), NONE, np.int32)
    for number, tag in reversed(list(enumerate(mix))):
        if tag in pool.tags:
            sources[contained(tasks, (pool.tags[tag],))] = number
    return sources


def counts_by_tag(pool: Pool, mix: Mix, tasks: Tasks) -> dict[str, int]:
    """Return how many of the tasks count for each tag of the mix."""
    counts = np.bincount(sources_of(pool, mix, tasks) + 1, minlength=len(mix) + 1)[1:]
    return dict(zip(mix, counts.tolist(), strict=True))


def account_of(mix: Mix, account: MixAccount) -> dict[str, MixedTag]:
    """Return the account of each tag of the mix; one that is new there begins with nothing."""
    known = {one.tag: one for one in account}
    return {tag: known.get(tag, MixedTag(tag)) for tag in mix}


def shares_now(settings: RunSettings, account: MixAccount, step: int) -> dict[str, float]:
    """Return the share of the tasks that each tag is owed at this step; empty without a mix."""
    if not settings.mix:
        return {}
    teaching = teaching_of(settings.mix, account)
    return shares_at(settings.mix, step, floor=settings.mix_floor, balance=settings.mix_balance, teaching=teaching)


def mix_shares(settings: RunSettings, account: MixAccount, step: int) -> tuple[MixShare, ...]:
    """Return each tag of the mix as it stands, by name; empty without a mix."""
    teaching, tags = teaching_of(settings.mix, account), account_of(settings.mix, account)
    return tuple(
        MixShare(tag, share, tags[tag].owed, tags[tag].given, teaching[tag])
        for tag, share in shares_now(settings, account, step).items()
    )


def teaching_of(mix: Mix, account: MixAccount) -> dict[str, float]:
    """Return for each tag how often its recent tasks were effective, shrunk to how often those of all tags were."""
    tags = account_of(mix, account)
    tried = math.fsum(one.tried for one in tags.values())
    overall = (math.fsum(one.effective for one in tags.values()) + 1.0) / (tried + 2.0)
    return {tag: (one.effective + TYPICAL_TASKS * overall) / (one.tried + TYPICAL_TASKS) for tag, one in tags.items()}


def after_report(
    settings: RunSettings,
    account: MixAccount,
    pool: Pool,
    evidence: Evidence,
    *,
    step: int,
) -> MixAccount:
    """Return the account after a report.

    Args:
        settings: of a run with a mix.
        account: before.
        pool: the tasks; those appended since the report change nothing.
        evidence: of the report.
        step: how many steps had closed.
    """
    mix = settings.mix
    if len(evidence) == 0:
        return account
    shares = shares_now(settings, account, step)
    sources = sources_of(pool, mix, evidence.tasks) + 1
    given = np.bincount(sources, minlength=len(mix) + 1)[1:].tolist()
    effective = np.bincount(sources[evidence.effective], minlength=len(mix) + 1)[1:].tolist()
    reported = sum(given)
    kept = WINDOW / (WINDOW + reported)
    grown = tuple(
        MixedTag(
            tag=tag,
            owed=one.owed + shares[tag] * reported,
            given=one.given + given[number],
            tried=one.tried * kept + given[number],
            effective=one.effective * kept + effective[number],
        )
        for number, (tag, one) in enumerate(account_of(mix, account).items())
    )
    return _bounded(grown)


def _bounded(account: MixAccount) -> MixAccount:
    """Return the account with all differences scaled down where the largest exceeds MOST_OWED, so that ratios stay."""
    largest = max(abs(one.missing) for one in account)
    if largest <= MOST_OWED:
        return account
    scale = MOST_OWED / largest
    return tuple(
        MixedTag(one.tag, one.given + one.missing * scale, one.given, one.tried, one.effective) for one in account
    )


def encoded(account: MixAccount) -> list[list[Any]]:
    """Return plain values. Inverse of `decoded`."""
    return [[one.tag, one.owed, one.given, one.tried, one.effective] for one in account]


def decoded(values: list[list[Any]]) -> MixAccount:
    """Return the account that was encoded.

    Raises:
        TypeError, ValueError: this is none.
    """
    return tuple(_tag_of(*one) for one in values)


def _tag_of(tag: Any, owed: Any, given: Any, tried: Any, effective: Any) -> MixedTag:
    if not isinstance(tag, str):
        raise TypeError(f"{tag!r} is not a tag")
    return MixedTag(tag, as_number(owed), as_count(given), as_number(tried), as_number(effective))


def is_possible_account(account: MixAccount) -> bool:
    """Return whether folding a journal could have led to this account."""
    return all(
        abs(one.missing) <= MOST_OWED + ROUNDING * one.given and 0.0 <= one.effective <= one.tried <= one.given
        for one in account
    )

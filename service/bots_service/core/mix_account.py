"""What the tags of a run's mix were owed and given so far.

Part of the run's state. Shares are owed for what was reported, so replicas, retries and replays agree, a rewind takes
the account back, and what was aborted or never came back is owed again.
"""

from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Tasks, contained
from bots_service.core.mix import Mix, shares_of
from bots_service.core.pool import Pool

MOST_OWED = 256.0  # tasks; what a tag that had no free task for long makes up for, once it has some again
NONE = -1  # the source of a task that carries no tag of the mix


@dataclass(frozen=True, slots=True)
class MixedTag:
    """The account of one tag of the mix.

    owed: tasks that its share came to; given: tasks of it that were reported.
    """

    tag: str
    owed: float = 0.0
    given: int = 0

    @property
    def missing(self) -> float:
        """How many tasks of it were owed and not given; negative where it was given more."""
        return self.owed - self.given


MixAccount = tuple[MixedTag, ...]


@dataclass(frozen=True, slots=True)
class MixShare:
    """One tag of a run's mix.

    tag: the tag.
    share: the share of the tasks that it is owed.
    owed: tasks that its share came to so far, of those reported.
    given: tasks that were reported and count for it.
    """

    tag: str
    share: float
    owed: float
    given: int


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


def mix_shares(mix: Mix, account: MixAccount) -> tuple[MixShare, ...]:
    """Return each tag of the mix as it stands, by name; empty without a mix."""
    shares = shares_of(mix)
    return tuple(MixShare(tag, shares[tag], one.owed, one.given) for tag, one in account_of(mix, account).items())


def after_report(mix: Mix, account: MixAccount, pool: Pool, tasks: Tasks) -> MixAccount:
    """Return the account after a report.

    Args:
        mix: of the run.
        account: before.
        pool: the tasks; those appended since the report change nothing.
        tasks: [n] those that were reported.
    """
    if not mix or not len(tasks):
        return account if mix else ()
    shares, given = shares_of(mix), counts_by_tag(pool, mix, tasks)
    reported = sum(given.values())
    return _bounded(
        tuple(
            MixedTag(tag, one.owed + shares[tag] * reported, one.given + given[tag])
            for tag, one in account_of(mix, account).items()
        )
    )


def _bounded(account: MixAccount) -> MixAccount:
    """Return the account with all differences scaled down where the largest exceeds MOST_OWED, so that ratios stay."""
    largest = max(abs(one.missing) for one in account)
    if largest <= MOST_OWED:
        return account
    scale = MOST_OWED / largest
    return tuple(MixedTag(one.tag, one.given + one.missing * scale, one.given) for one in account)

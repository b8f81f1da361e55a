"""The hot store: each run's newest state, its leases, and its selections by idempotency key.

The journal in SQL is the truth; the hot store is soft state that saves reading it. Losing all of it loses nothing that
was acknowledged: it costs a read of SQL, and answers that say `degraded`.

Two stores exist. Redis is shared by all replicas (`storage/redis`). Memory serves one process (`storage/memory`), which
may be the only one, or one of several that see nothing of each other.

# Version tokens

A token names a run and a period in which the store lost nothing of the run, this process missed nothing of what others
wrote there, and no change of the run's dataset was announced. It is opaque to callers, and travels in a loop:

1. `newest` returns a token, with a state only if that state can be trusted.
2. Without a state, the caller reads the run's head and its dataset's version from SQL, and folds the journal up to it.
3. `publish` hands the state and the token back. If the period has ended it answers SUPERSEDED (the store lost something
   or the dataset changed, so every process reads SQL next) or OUTDATED (this process lost sight of the store): begin
   again at 1.

So a state that was folded before the store lost something never lands after it. `NO_TOKEN` says that no such period
exists: the store can't be asked, or other processes publish elsewhere.

In Redis a token is `outages:generation`. A **generation** is a random id in the run's header, next to the run_id of the
Redis server that wrote it. A new one begins when

- a script finds no header, or one that another server process wrote (Redis was wiped, evicted the key, restarted, or a
  replica was promoted): the state is dropped, revision and ordinals begin at random, and leases count as lost;
- the dataset changes or a replica published without Redis (`invalidate`): state, leases and ordinals stay;
- the state is deleted or its bytes are damaged: the state is dropped, the leases stay.

`outages` counts how often this process found Redis away, so that a token from before an outage is invalid after it.

A process trusts a generation once it has published in it, because it has then read SQL since the generation began.
Until then `newest` returns no state, even if others published one.

# Leases

A selection is optimistic: `prepare` returns a ticket, the caller draws tasks, `acquire` leases all of them or none. The
ticket names what the draw relied on: the token, the state (epoch, seq), the `revision` of the leases, which grows with
each change of them, and the `ordinal` of this selection among those from the same state, which seeds the draw.

- `acquire` finds another state or token: `stale`. Ask for the newest state.
- It finds another revision or ordinal: a conflict. It reserves an ordinal for this process and refuses the draw once.
  The next draw uses that ordinal alone, and is refused only if it shares a task with a lease that it didn't know.
- It finds a selection under the same idempotency key: `previous`.

`prepare` may answer from this process's memory; `acquire` refuses outdated tickets. After leases were lost, tickets
say `degraded` until the longest of them would have ended (`lease_seconds`), because others may work on the same tasks.

# When Redis is away

A script that fails twice makes Redis count as away for this process. It is not asked again until a probe succeeds.
Meanwhile states and leases live in this process's memory: `publish` returns LOCAL, tickets are `local` and `degraded`.
Changes that others must see run once Redis is back, before anything else: `register`, `invalidate`, `delete`, `clear`,
`release`, and an `invalidate` for each run with a state that was published locally. Local leases stay in this process's
memory until they end.

# Transitions

Before each event, process P has published state 4 of a registered run, and holds its token and a ticket. The columns
say what P sees after the event: what `newest` returns, what `publish` of state 4 with the old token returns, what
`acquire` with the old ticket returns, and what the ticket of P's next selection says, once P has read SQL.

In Redis; Q is another replica:

| event                             | newest  | publish    | acquire  | next ticket |
|-----------------------------------|---------|------------|----------|-------------|
| nothing                           | state 4 | SHARED     | leased   | shared      |
| P publishes state 5               | state 5 | SHARED     | stale    | shared      |
| Q publishes state 5               | state 5 | SHARED     | stale    | shared      |
| Q leases tasks                    | state 4 | SHARED     | conflict | shared      |
| Q releases tasks                  | state 4 | SHARED     | conflict | shared      |
| a lease ends                      | state 4 | SHARED     | conflict | shared      |
| clear                             | state 4 | SHARED     | conflict | shared      |
| invalidate                        | none    | SUPERSEDED | stale    | shared      |
| delete                            | none    | SUPERSEDED | stale    | shared      |
| Redis is wiped                    | none    | SUPERSEDED | stale    | degraded    |
| Redis restarts from its file      | none    | SUPERSEDED | stale    | degraded    |
| Q finds the state's bytes damaged | none    | SUPERSEDED | stale    | shared      |
| Redis is away                     | none    | LOCAL      | conflict | local       |
| Redis was away                    | none    | OUTDATED   | stale    | shared      |
| Q published while cut off         | none    | SUPERSEDED | stale    | shared      |

In the memory of the only process no other process changes anything, so nothing is ever stale:

| event                             | newest  | publish  | acquire  | next ticket |
|-----------------------------------|---------|----------|----------|-------------|
| nothing                           | state 4 | SHARED   | leased   | shared      |
| P publishes state 5               | state 5 | SHARED   | leased   | shared      |
| a lease ends                      | state 4 | SHARED   | conflict | shared      |
| clear                             | state 4 | SHARED   | conflict | shared      |
| invalidate                        | state 4 | SHARED   | leased   | shared      |
| delete                            | none    | SHARED   | leased   | shared      |

In the memory of one of several processes nothing can be trusted:

| event                             | newest  | publish  | acquire  | next ticket |
|-----------------------------------|---------|----------|----------|-------------|
| nothing                           | none    | LOCAL    | leased   | local       |
| invalidate                        | none    | LOCAL    | leased   | local       |

`tests/storage/test_hot_transitions.py` plays every row of these tables.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.state import RunState
from bots_service.ports.records import RunRow, Selection

NO_TOKEN = ""  # the store could not be asked; nothing can be published with it


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The hot store's state of a run.

    state: the newest state; None if there is none that can be trusted.
    token: to publish the next state with; NO_TOKEN if the store can't be asked.
    """

    state: RunState | None
    token: str


@dataclass(frozen=True, slots=True)
class KnownState:
    """The state of a run that a process works with.

    token: with which it was published; NO_TOKEN if other replicas can't see the state, or it may not be the newest.
    """

    state: RunState
    token: str

    @property
    def degraded(self) -> bool:
        """Whether other replicas may know a newer state, or not know this one."""
        return self.token == NO_TOKEN


@dataclass(frozen=True, slots=True)
class LeaseTicket:
    """The basis of a selection's draw.

    ordinal: number of this selection among those from the same state; no other selection has the same.
    leased: sorted tasks in flight.
    revision: of the run's leases; it grows with each change of them.
    token: of the state.
    local: the store is away; the tasks are leased in this process's memory, invisible to other replicas.
    degraded: others may work on the same tasks, because the ticket is local or leases were lost recently.
    previous: the request's fingerprint and the selection that was made under the same key before.
    """

    ordinal: int
    leased: Tasks
    revision: int = 0
    token: str = NO_TOKEN
    local: bool = False
    degraded: bool = False
    previous: tuple[str, Selection] | None = None


@dataclass(frozen=True, slots=True)
class LeaseTtls:
    """The tasks in flight.

    tasks: sorted.
    ttl_s: seconds until the lease of each ends, above 0, by the store's clock; equal for tasks leased together.
    """

    tasks: Tasks
    ttl_s: Floats


@dataclass(frozen=True, slots=True)
class LeaseResult:
    """The result of leasing a selection.

    selection: the leased selection; None: prepare and draw again.
    previous: the request's fingerprint and the selection that was made under the same key in the meantime.
    stale: a newer state was published, the dataset changed, or the store lost data: get the newest state.
    """

    selection: Selection | None = None
    previous: tuple[str, Selection] | None = None
    stale: bool = False


class PublishResult(Enum):
    """Who can see a published state."""

    SHARED = "shared"
    """Every replica sees this state, or a newer one."""
    LOCAL = "local"
    """Only this process: the shared store is away."""
    SUPERSEDED = "superseded"
    """Nobody, but no replica uses an older state: since the token was issued, the store lost data or the dataset
    changed, so each reads SQL first and finds all entries that were committed before the token was issued."""
    OUTDATED = "outdated"
    """Nobody: since the token was issued, this process lost the connection. Get the newest state again."""


class States(Protocol):
    """The newest state of each run."""

    def known(self, run: RunRow) -> KnownState | None:
        """Return the newest state that this process holds; others may have published a newer one."""
        ...

    async def register(self, run: RunRow) -> None:
        """Register a new run; the store treats the leases of an unknown run as lost."""
        ...

    async def newest(self, run: RunRow) -> PublishedState:
        """Return the newest published state and the token for the next publication.

        Without a state, the caller must read the run's head in SQL after this returns: it says what the newest state
        is, and what the dataset's version is.
        """
        ...

    async def publish(self, run: RunRow, state: RunState, token: str) -> PublishResult:
        """Make a state the newest, unless one with a greater (epoch, seq) is.

        Args:
            run: the run.
            state: its state, with every entry that was committed when the token was issued.
            token: what `newest` or `known` returned before the run's head was read.
        """
        ...

    async def invalidate(self, run: RunRow) -> None:
        """Invalidate the run's tokens, because its dataset changed: every process reads SQL next."""
        ...

    async def delete(self, run: RunRow) -> None:
        """Delete the run's state in this process and in the store, because the run was deleted."""
        ...


class Leases(Protocol):
    """Tasks in flight, and selections by their idempotency key."""

    async def prepare(self, run: RunRow, known: KnownState, *, key: str | None) -> LeaseTicket:
        """Return the ticket that a selection from this state is drawn with.

        A shared store may answer from this process's memory; `acquire` refuses a ticket that no longer holds.

        Args:
            run: the run.
            known: what the selection will be drawn from, known before its dataset was looked at; with NO_TOKEN the
                tasks are leased in this process only.
            key: the idempotency key.
        """
        ...

    async def acquire(
        self,
        run: RunRow,
        selection: Selection,
        ticket: LeaseTicket,
        *,
        seconds: float,
        key: str | None,
        fingerprint: str,
        reuse: bool,
    ) -> LeaseResult:
        """Lease the selection's tasks, all or none, and keep it under its key.

        Args:
            run: the run.
            selection: what was drawn.
            ticket: what it was drawn from.
            seconds: how long the leases last.
            key: the idempotency key.
            fingerprint: of the request that came with the key.
            reuse: lease tasks again that the ticket lists as leased, because the request asks for them first or too
                few others are left; a task that was leased since is still refused.
        """
        ...

    async def release(self, run: RunRow, tasks: Tasks) -> None:
        """End the leases of these tasks; tasks without a lease are ignored."""
        ...

    async def leased(self, run: RunRow) -> Tasks:
        """Return the tasks in flight, sorted."""
        ...

    async def ttls(self, run: RunRow) -> LeaseTtls:
        """Return the tasks in flight, and when the lease of each ends."""
        ...

    async def previous(self, run: RunRow, key: str | None) -> tuple[str, Selection] | None:
        """Return the request's fingerprint and the selection that was made under a key, None if there is none."""
        ...

    async def clear(self, run: RunRow) -> None:
        """End all leases of the run, and delete its selections by key."""
        ...

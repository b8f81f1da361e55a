"""What a run has in flight, as frozen values."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Tasks whose leases end together, as those of one selection do.

    tasks: how many; first: the ids of some of them.
    """

    expires_at: datetime
    tasks: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """Tasks that were selected and not reported yet.

    leased: how many, also where not all leases are listed; leases: those first that end soonest.
    """

    leased: int
    leases: tuple[Lease, ...]

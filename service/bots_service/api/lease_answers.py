"""The answer that lists tasks in flight."""

from datetime import datetime

from msgspec import Struct

from bots_service.api.answers import moment
from bots_service.usecases.read_run import LeaseGroup


class Lease(Struct, frozen=True):
    """Tasks whose leases end together, as those of one selection do. first: ids of as many as the query asks for."""

    expires_at: datetime
    tasks: int
    first: list[str]


class Leases(Struct, frozen=True):
    """Tasks in flight, those first whose leases end soonest. leased: how many, also where not all leases are listed."""

    leased: int
    leases: list[Lease]

    @classmethod
    def of(cls, leased: int, groups: list[LeaseGroup]) -> "Leases":
        """Return the answer for some groups."""
        return cls(leased, [Lease(moment(group.expires_at), group.tasks, group.first) for group in groups])

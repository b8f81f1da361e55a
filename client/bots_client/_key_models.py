"""API keys, as frozen values."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """How often a key may call; burst: calls at once, after a rest."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key, without what makes it one.

    scopes: of read, select, report, admin; the last may do everything.
    datasets: patterns of the names that it is good for.
    rate_limit: None: as often as it likes.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    datasets: tuple[str, ...]
    created_at: datetime
    rate_limit: RateLimit | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A key that was just made.

    key: what to send. The service tells it once and keeps only its digest; None if that answer was lost on its way and
        asked for again: revoke the key then, and make another.
    """

    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoAmI:
    """Whoever calls.

    guarded: whether keys guard the service; without them nobody has a name, and everybody may do everything.
    scopes, datasets: as of an `ApiKey`.
    """

    guarded: bool
    scopes: tuple[str, ...]
    datasets: tuple[str, ...]
    name: str | None = None
    expires_at: datetime | None = None

"""The bodies of /keys and /whoami."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, structs

from bots_service.api.answers import moment
from bots_service.api.parameters import whole
from bots_service.ports.keys import KeyRow, Scope
from bots_service.usecases.authenticate import Caller
from bots_service.usecases.manage_keys import NewKey

CENTURY_S = 100 * 366 * 86400.0

# No control characters, which could play tricks with a terminal.
KeyName = Annotated[str, whole("^[^\\x00-\\x1f\\x7f-\\x9f]{1,128}$")]
Pattern = Annotated[str, whole("^[A-Za-z0-9._*?-]{1,128}$")]


class RateLimitRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """How often a key may call. burst: calls at once after a rest; left out, those of one second."""

    per_second: Annotated[float, Meta(gt=0, le=1e6)]
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class KeyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A key that is wanted. datasets: patterns of names; `*` stands for any characters, `?` for one."""

    name: KeyName
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=8)]
    datasets: Annotated[list[Pattern], Meta(min_length=1, max_length=64)]
    rate_limit: RateLimitRequest | None = None
    expires_in_seconds: Annotated[float, Meta(gt=0, le=CENTURY_S)] | None = None

    def wish(self) -> NewKey:
        """Return what is wanted."""
        rate = self.rate_limit
        return NewKey(
            name=self.name,
            scopes=frozenset(self.scopes),
            datasets=tuple(dict.fromkeys(self.datasets)),
            per_second=None if rate is None else rate.per_second,
            burst=None if rate is None else rate.burst,
            expires_in_s=self.expires_in_seconds,
        )


class RateLimit(Struct, frozen=True):
    """How often a key may call."""

    per_second: float
    burst: int


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key, without what makes it one."""

    id: str
    name: str
    scopes: list[Scope]
    datasets: tuple[str, ...]
    rate_limit: RateLimit | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    @staticmethod
    def of(row: KeyRow) -> "ApiKey":
        """Return the answer for a row."""
        return ApiKey(
            id=row.id,
            name=row.name,
            scopes=sorted(row.scopes),
            datasets=row.datasets,
            rate_limit=None if row.rate is None else RateLimit(row.rate.per_second, row.rate.burst),
            created_at=moment(row.created_at),
            expires_at=None if row.expires_at is None else moment(row.expires_at),
            revoked_at=None if row.revoked_at is None else moment(row.revoked_at),
        )


class NewApiKey(ApiKey, frozen=True, kw_only=True):
    """A new key. key: told once; null when the answer is given again."""

    key: str | None

    @staticmethod
    def told(row: KeyRow, key: str | None) -> "NewApiKey":
        """Return the answer for a row, with its key."""
        return NewApiKey(**structs.asdict(ApiKey.of(row)), key=key)


class ApiKeys(Struct, frozen=True):
    """A page of keys, by id; revoked ones too."""

    keys: list[ApiKey]
    next_cursor: str | None


class WhoAmI(Struct, frozen=True):
    """Who the caller is. guarded: whether keys guard the service; without them nobody has a name, and may do all."""

    guarded: bool
    name: str | None
    scopes: list[Scope]
    datasets: tuple[str, ...]
    expires_at: datetime | None

    @classmethod
    def of(cls, caller: Caller) -> "WhoAmI":
        """Return the answer for a caller."""
        return cls(
            guarded=caller.key is not None,
            name=caller.name,
            scopes=sorted(caller.scopes),
            datasets=caller.datasets,
            expires_at=None if caller.expires_at is None else moment(caller.expires_at),
        )

"""API keys: made, listed, revoked, with a key of scope admin for every dataset; and the one that calls."""

from collections.abc import Iterable

from bots_client._call import Call, Pages, given, listed, path, written
from bots_client._decode import into, nothing
from bots_client._errors import InvalidRequestError
from bots_client._inputs import strings
from bots_client._key_models import ApiKey, NewApiKey, WhoAmI


def create_key(
    name: str,
    *,
    scopes: Iterable[str],
    datasets: Iterable[str],
    rate: float | None = None,
    burst: int | None = None,
    expires_in_s: float | None = None,
) -> Call[NewApiKey]:
    """Make a key. Its `key` is told this once: keep it where only those see it who may use it.

    Args:
        name: for people.
        scopes: read, select, report, admin.
        datasets: patterns of names; "*" stands for any characters, "?" for one.
        rate: calls a second; None: as many as it likes.
        burst: calls at once, after a rest; None: those of one second.
        expires_in_s: None: it never expires.

    Raises:
        InvalidRequestError: among others, it would be the service's first key and could not make others.
    """
    if rate is None and burst is not None:
        raise InvalidRequestError("burst is how far a rate may be exceeded; pass rate= too")
    content = given(
        name=name,
        scopes=strings(scopes, name="scopes"),
        datasets=strings(datasets, name="datasets"),
        rate_limit=None if rate is None else given(per_second=rate, burst=burst),
        expires_in_seconds=expires_in_s,
    )
    return written("POST", path("keys"), into(NewApiKey), content)


def keys(*, limit: int | None = None) -> Pages[ApiKey]:
    """Go through the keys by id; revoked ones too.

    Args:
        limit: at most so many; None: all.
    """
    return listed(ApiKey, "keys", path("keys"), limit)


def revoke_key(key_id: str) -> Call[None]:
    """Revoke a key: within 5 seconds it opens nothing any more.

    Raises:
        InvalidRequestError: this is a whole key, which must not stand in an address that others may log.
    """
    if "_" in key_id:
        raise InvalidRequestError("that is a whole key; pass its id, the part between its underscores")
    return written("DELETE", path("keys", key_id), nothing)


def whoami() -> Call[WhoAmI]:
    """Say who calls: what the key in use is called, and what it may do."""
    return Call("GET", path("whoami"), into(WhoAmI))

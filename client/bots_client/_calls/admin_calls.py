"""Administration: pruning, API keys, and the service itself."""

from collections.abc import Iterable

from bots_client._admin_models import ApiKey, NewApiKey, Pruning, Version, WhoAmI
from bots_client._arguments import checked_strings
from bots_client._call import (
    Call,
    Pages,
    Probe,
    given,
    listed,
    path,
    written,
)
from bots_client._decode import into, nothing
from bots_client._errors import InvalidRequestError

PRUNE_DEADLINE_S = 3600.0  # a first time, of long journals


def prune(*, keep_journal_days: float | None = None, dry_run: bool = False) -> Call[Pruning]:
    """Remove old journal entries that snapshots cover.

    Args:
        keep_journal_days: keep entries younger than this; None: the service's setting.
        dry_run: only report what would be removed.
    """
    content = given(keep_journal_days=keep_journal_days, dry_run=dry_run)
    return written("POST", path("prune"), into(Pruning), content, deadline_s=PRUNE_DEADLINE_S)


def create_key(
    name: str,
    *,
    scopes: Iterable[str],
    datasets: Iterable[str],
    expires_in_s: float | None = None,
) -> Call[NewApiKey]:
    """Create an API key. Only this response contains the secret `key`: store it safely.

    Args:
        name: name of the key.
        scopes: any of read, select, report, admin.
        datasets: patterns of dataset names; "*" matches any characters, "?" one.
        expires_in_s: lifetime in seconds; None: it never expires.

    Raises:
        InvalidRequestError: an argument is invalid, or the first key is not an admin key.
    """
    content = given(
        name=name,
        scopes=checked_strings(scopes, "scopes"),
        datasets=checked_strings(datasets, "datasets"),
        expires_in_seconds=expires_in_s,
    )
    return written("POST", path("keys"), into(NewApiKey), content)


def keys(*, limit: int | None = None) -> Pages[ApiKey]:
    """List the API keys by ID, including revoked ones.

    Args:
        limit: maximum number of keys; None: all.
    """
    return listed(ApiKey, "keys", path("keys"), limit)


def revoke_key(key_id: str) -> Call[None]:
    """Revoke an API key; it stops working within 5 seconds.

    Raises:
        InvalidRequestError: this is a whole key; URLs are logged, so pass only its ID.
    """
    if "_" in key_id:
        raise InvalidRequestError("that is a whole key; pass its id, the part between its underscores")
    return written("DELETE", path("keys", key_id), nothing)


def whoami() -> Call[WhoAmI]:
    """Return the name, scopes and datasets of the key in use."""
    return Call("GET", path("whoami"), into(WhoAmI))


def version() -> Call[Version]:
    """Return the versions of the service and of what it runs on."""
    return Call("GET", path("version"), into(Version))


def is_ready() -> Probe:
    """Return whether the service accepts requests, degraded or not; False if it is unreachable."""
    return Call("GET", path("readyz"), nothing, retried=False)


def is_live() -> Probe:
    """Return whether the service's process responds; False if it is unreachable."""
    return Call("GET", path("livez"), nothing, retried=False)

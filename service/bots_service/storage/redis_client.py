"""A client of Redis from its URL, and what to do where Redis refuses it."""

from urllib.parse import parse_qsl, urlencode, urlsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, MovedError, NoPermissionError, RedisClusterException

from bots_service.errors import StorageUnavailableError

CONNECTIONS = 32  # scripts take Redis some 0.1 ms each, so more would only wait there


def client_of(url: str, timeout_s: float) -> Redis | RedisCluster:
    """Return a client that neither retries nor waits for ever.

    Raises:
        StorageUnavailableError: this is no URL of a Redis.
    """
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        kind = RedisCluster if options.pop("cluster", "false").lower() == "true" else Redis
        return kind.from_url(
            parts._replace(query=urlencode(options)).geturl(),
            # No time-out of redis-py's own: it waits by asyncio.wait_for, which swallows a cancellation now and then
            # before Python 3.12, so that a deadline or the end of the service would pass unheard.
            socket_timeout=None,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            max_connections=CONNECTIONS,
            protocol=2,
        )
    except (ValueError, RedisClusterException):
        # Without its cause, which may quote a part of the password.
        message = "BOTS_REDIS_URL is no URL of a Redis, such as redis://user:password@host:6379/0"
        raise StorageUnavailableError(message) from None


def refusal(error: BaseException) -> str | None:
    """Return what the operator must mend, None if it may pass by itself."""
    if isinstance(error, AuthenticationError):
        return f"Redis refuses the user and password in BOTS_REDIS_URL: {error}"
    if isinstance(error, NoPermissionError) or "can't run this command" in str(error):
        return f"Redis lets the user in BOTS_REDIS_URL run too few commands (EVAL, INFO, TIME, keys bots:*): {error}"
    if isinstance(error, MovedError):
        return "the Redis of BOTS_REDIS_URL belongs to a cluster: add ?cluster=true to the URL"
    if isinstance(error, RedisClusterException) and "not enabled" in str(error):
        return "the Redis of BOTS_REDIS_URL is not a cluster: take cluster=true out of the URL"
    return None

"""A client of the Redis that BOTS_REDIS_URL names."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, MovedError, NoPermissionError

from bots_service.errors import StorageUnavailableError

CONNECTIONS = 32  # scripts take Redis about 0.1 ms each, so more connections would only wait there
# For a command inside a script Redis answers a plain error, not NOPERM: that of 6.2 and 7.0, and that of 8.0.
NO_PERMISSION_IN_SCRIPT = ("can't run this command", "ACL failure in script")
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


def require_files(url: str) -> None:
    """Check that the files are there which a URL names.

    Raises:
        StorageUnavailableError: one is not.
    """
    options = dict(parse_qsl(urlsplit(url).query))
    for option in FILES:
        if option in options and not Path(options[option]).is_file():
            raise StorageUnavailableError(f"{option} in BOTS_REDIS_URL names no file: {options[option]}")


def client_of(url: str, timeout_s: float) -> Redis:
    """Return a client that does not retry, and has a timeout for connecting.

    Raises:
        StorageUnavailableError: the URL is not a Redis URL, or names a file that is not there.
    """
    # redis-py's own timeout uses asyncio.wait_for, which can swallow a cancellation before Python 3.12: a deadline or
    # the shutdown of the service would be missed.
    waits: dict[str, Any] = {
        "socket_timeout": None,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "max_connections": CONNECTIONS,
        "protocol": 2,
    }
    try:
        require_files(url)
        return Redis.from_url(url, **waits)
    except ValueError:
        # Without its cause, which may contain a part of the password.
        message = "BOTS_REDIS_URL is not a Redis URL, such as redis://user:password@host:6379/0"
        raise StorageUnavailableError(message) from None


def refusal(error: BaseException) -> str | None:
    """Return what the operator has to fix; None if the failure may be temporary."""
    if isinstance(error, AuthenticationError):
        return f"Redis rejects the user and password in BOTS_REDIS_URL: {error}"
    if isinstance(error, NoPermissionError) or any(words in str(error) for words in NO_PERMISSION_IN_SCRIPT):
        return f"the Redis user in BOTS_REDIS_URL needs more rights (EVAL, INFO, TIME, keys bots:*): {error}"
    if isinstance(error, MovedError) or "unknown command 'evalsha'" in str(error).lower():
        return "BOTS_REDIS_URL must name one Redis that has all keys: no cluster, no Sentinel"
    if "certificate verify failed" in str(error).lower():
        return f"the certificate of Redis is not trusted: name its CA, ?ssl_ca_certs=FILE in BOTS_REDIS_URL: {error}"
    return None

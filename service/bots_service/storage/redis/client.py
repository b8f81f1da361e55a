"""What BOTS_REDIS_URL names: one Redis, a Redis Cluster, or Sentinels that know the primary; and a client of it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    NoPermissionError,
    RedisClusterException,
)

from bots_service.errors import StorageUnavailableError

CONNECTIONS = 32  # scripts take Redis about 0.1 ms each, so more connections would only wait there
PORT, SENTINEL_PORT = 6379, 26379
OF_SENTINELS = "sentinel_"  # begins the options with what opens the Sentinels: sentinel_username, sentinel_password
# For a command inside a script Redis answers a plain error, not NOPERM: that of 6.2 and 7.0, and that of 8.0.
NO_PERMISSION_IN_SCRIPT = ("can't run this command", "ACL failure in script")
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """What the URL says.

    plain: the URL of the first host alone, without the options that only this service knows.
    hosts: names and ports: of one Redis, of some servers of a cluster, or of Sentinels.
    sentinel: what the Sentinels call the primary; None where the URL names no Sentinels.
    sentinel_login: username and password at the Sentinels, where they want any.
    """

    plain: str
    hosts: tuple[tuple[str, int], ...]
    is_cluster: bool
    sentinel: str | None
    sentinel_login: Mapping[str, str]

    def login_and_tls(self) -> dict[str, Any]:
        """Return everything in the URL except where it leads to, as a client's arguments."""
        arguments: dict[str, Any] = {**parse_url(self.plain)}
        arguments["ssl"] = arguments.pop("connection_class", None) is not None
        return {name: value for name, value in arguments.items() if name not in {"host", "port"}}

    def at_sentinels(self) -> dict[str, Any]:
        """Return the same for the Sentinels, which have no databases, and users of their own."""
        arguments = self.login_and_tls()
        tls = {name: value for name, value in arguments.items() if name.startswith("ssl")}
        return {**tls, **self.sentinel_login}


def read_address(url: str) -> RedisAddress:
    """Return what a URL says.

    Raises:
        ValueError: it is not a Redis URL.
        StorageUnavailableError: it names a file that is not there, or several hosts and not what they are.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    is_cluster = options.pop("cluster", "false").lower() == "true"
    sentinel = options.pop("sentinel", None)
    login = {name: options.pop(name) for name in list(options) if name.startswith(OF_SENTINELS)}
    user, at, names = parts.netloc.rpartition("@")
    hosts = [urlsplit(f"//{name}") for name in names.split(",")]
    if len(hosts) > 1 and not (is_cluster or sentinel):
        raise StorageUnavailableError("BOTS_REDIS_URL names several hosts: add ?sentinel=NAME or ?cluster=true")
    for option in FILES:
        if option in options and not Path(options[option]).is_file():
            raise StorageUnavailableError(f"{option} in BOTS_REDIS_URL names no file: {options[option]}")
    plain = parts._replace(netloc=f"{user}{at}{names.partition(',')[0]}", query=urlencode(options))
    usual_port = SENTINEL_PORT if sentinel else PORT
    return RedisAddress(
        plain.geturl(),
        tuple((host.hostname or "localhost", host.port or usual_port) for host in hosts),
        is_cluster,
        sentinel,
        {name.removeprefix(OF_SENTINELS): value for name, value in login.items()},
    )


def client_of(url: str, timeout_s: float) -> Redis | RedisCluster:
    """Return a client that does not retry, and has a timeout for connecting.

    Raises:
        StorageUnavailableError: the URL is not a Redis URL, or something in it is missing.
    """
    # redis-py's own timeout uses asyncio.wait_for, which can swallow a cancellation before Python 3.12: a deadline or
    # the shutdown of the service would be missed.
    common: dict[str, Any] = {
        "socket_timeout": None,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "max_connections": CONNECTIONS,
        "protocol": 2,
    }
    try:
        address = read_address(url)
        if address.sentinel is not None:
            return _primary(address, address.sentinel, common, timeout_s)
        if address.is_cluster:
            nodes = [ClusterNode(*host) for host in address.hosts]
            return RedisCluster.from_url(address.plain, startup_nodes=nodes, **common)
        return Redis.from_url(address.plain, **common)
    except (ValueError, RedisClusterException):
        # Without its cause, which may contain a part of the password.
        message = "BOTS_REDIS_URL is not a Redis URL, such as redis://user:password@host:6379/0"
        raise StorageUnavailableError(message) from None


def _primary(address: RedisAddress, name: str, common: Mapping[str, Any], timeout_s: float) -> Redis:
    """Return a client that asks the Sentinels for the primary whenever it connects."""
    # One that hangs must leave time to ask the others, and to connect.
    share_s = timeout_s / (len(address.hosts) + 1)
    waits = {"socket_timeout": share_s, "socket_connect_timeout": share_s, "retry": Retry(NoBackoff(), 0)}
    options = {**address.at_sentinels(), **waits, "protocol": 2}
    sentinels = Sentinel(address.hosts, sentinel_kwargs=options)  # type: ignore[no-untyped-call] # redis has no types
    client: Redis = sentinels.master_for(name, **{**address.login_and_tls(), **common})
    return client


async def close(client: Redis | RedisCluster) -> None:
    """Close all its connections, those to Sentinels among them."""
    await client.aclose()
    pool = getattr(client, "connection_pool", None)
    if isinstance(pool, SentinelConnectionPool):
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


async def forget_servers(client: Redis | RedisCluster) -> None:
    """Let the client of a cluster ask again which server has which keys: it keeps asking one that died."""
    if isinstance(client, RedisCluster):
        with suppress(RuntimeError):  # uvloop raises it where a server ends meanwhile
            await client.aclose()


def refusal(error: BaseException) -> str | None:
    """Return what the operator has to fix; None if the failure may be temporary."""
    if isinstance(error, AuthenticationError):
        return f"Redis rejects the user and password in BOTS_REDIS_URL: {error}"
    if isinstance(error, NoPermissionError) or any(words in str(error) for words in NO_PERMISSION_IN_SCRIPT):
        return f"the Redis user in BOTS_REDIS_URL needs more rights (EVAL, INFO, TIME, keys bots:*): {error}"
    if isinstance(error, MovedError):
        return "the Redis of BOTS_REDIS_URL belongs to a cluster: add ?cluster=true to the URL"
    if isinstance(error, RedisClusterException) and "not enabled" in str(error):
        return "the Redis of BOTS_REDIS_URL is not a cluster: remove cluster=true from the URL"
    if "unknown command 'evalsha'" in str(error).lower():
        return "BOTS_REDIS_URL names a Sentinel, which keeps no data: add ?sentinel=NAME, the primary's name there"
    if "certificate verify failed" in str(error).lower():
        return f"the certificate of Redis is not trusted: name its CA, ?ssl_ca_certs=FILE in BOTS_REDIS_URL: {error}"
    return None

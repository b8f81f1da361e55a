"""Can Redis share the live state between replicas?"""

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from bots_service.doctor import finding as clock
from bots_service.doctor.finding import Finding, ok, problem, warning, without_secrets
from bots_service.errors import StorageUnavailableError
from bots_service.retention import PROBES_S
from bots_service.storage.redis import MIN_VERSION, PROBE_KEY, refusal, require_files, source_of

NEARLY_FULL = 0.8

Info = dict[str, Any]  # what INFO answers: names are Redis's own


def examine(url: str, *, timeout_s: float) -> Iterator[Finding]:
    """Yield what is found.

    Args:
        url: BOTS_REDIS_URL.
        timeout_s: longest wait for each answer.
    """
    import redis

    where = urlsplit(url).netloc.rpartition("@")[2] or "?"
    try:
        yield from _examine(url, where, timeout_s)
    except (redis.RedisError, StorageUnavailableError, TypeError, ValueError) as error:
        password = urlsplit(url).password
        said = without_secrets(error, password, unquote(password or ""))
        usual = "start it, or correct BOTS_REDIS_URL: check the host, port, user and password"
        yield problem("redis", f"Redis at {where} can't be used: {said}", refusal(error) or usual)


def _examine(url: str, where: str, timeout_s: float) -> Iterator[Finding]:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    waits: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    waits |= {"retry": Retry(NoBackoff(), 0), "protocol": 2}
    require_files(url)
    with redis.Redis.from_url(url, **waits) as client:
        yield from _look(client, where)


def _look(client: Any, where: str) -> Iterator[Finding]:
    info: Info = client.info()
    yield version(info, where)
    yield role(info)
    if info.get("redis_mode") == "sentinel":  # which knows no other command that we need
        return
    before = time.time()
    seconds, microseconds = client.time()
    after = time.time()
    yield eviction(info)
    yield memory(info)
    yield persistence(info)
    yield clock.compare("redis clock", seconds + microseconds / 1e6, before=before, after=after)
    yield scripts(client)


def version(info: Info, where: str) -> Finding:
    """Judge the server's version."""
    said = f"Redis {info['redis_version']} at {where}"
    if tuple(int(part) for part in str(info["redis_version"]).split(".")[:2]) < MIN_VERSION:
        return problem("redis", said, "use Redis 6.2 or later")
    return ok("redis", said)


def role(info: Info) -> Finding:
    """Judge whether it has all keys, and takes writes."""
    mode = info.get("redis_mode", "standalone")
    if mode != "standalone":
        return problem("redis role", f"it is a {mode}", "name one Redis that has all keys in BOTS_REDIS_URL")
    if info.get("role") != "master":
        return problem("redis role", "it is a replica, which is read-only", "name the primary in BOTS_REDIS_URL")
    return ok("redis role", "primary")


def eviction(info: Info) -> Finding:
    """Judge what it does when its memory is full."""
    policy, limit = info.get("maxmemory_policy", "unknown"), int(info.get("maxmemory", 0))
    if policy == "noeviction":
        return ok("redis eviction", "noeviction")
    said = f"maxmemory-policy is {policy}: it may evict keys that the service needs"
    advice = "set maxmemory-policy noeviction"
    return (
        problem("redis eviction", said, advice)
        if limit
        else warning("redis eviction", f"{said}, once it has a limit", advice)
    )


def memory(info: Info) -> Finding:
    """Judge how full its memory is."""
    used, limit = int(info["used_memory"]), int(info.get("maxmemory", 0))
    said = f"{used / 2**20:.0f} MiB used, " + (f"at most {limit / 2**20:.0f} MiB" if limit else "no limit")
    if limit and used > NEARLY_FULL * limit:
        return warning(
            "redis memory", said, "raise maxmemory: a full Redis accepts no new state, and each replica continues alone"
        )
    return ok("redis memory", said)


def persistence(info: Info) -> Finding:
    """Judge whether leases outlive a restart."""
    if not int(info.get("aof_enabled", 0)):
        said = "no append-only file: if Redis restarts, all leases and selections are lost"
        return warning("redis persistence", said, "set appendonly yes; reports are safe in SQL in any case")
    if info.get("aof_last_write_status", "ok") != "ok":
        return problem(
            "redis persistence", "its last write to the append-only file failed", "check its disk and its log"
        )
    return ok("redis persistence", "append-only file")


def scripts(client: Any) -> Finding:
    """Judge whether the user may run scripts such as the service's: with its own probe, which writes a key for 60 s."""
    import redis

    try:
        client.eval(source_of("probe"), 1, PROBE_KEY, int(PROBES_S))
    except redis.ResponseError as error:
        advice = (
            "allow EVAL, EVALSHA and what they call on keys bots:*: ACL SETUSER NAME ~bots:* +@all -@dangerous +info"
        )
        return problem("redis scripts", f"refused: {error}", advice)
    return ok("redis scripts", "this user can run them")

"""Can Redis share the live state between replicas?"""

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from bots_service.doctor import finding as clock
from bots_service.doctor.finding import Finding, ok, problem, warning, without_secrets
from bots_service.retention import PROBES_S
from bots_service.storage.redis.connection import MIN_VERSION, PROBE, probe_key

NEARLY_FULL = 0.8

Info = dict[str, Any]  # what INFO answers: names are Redis's own


def examine(url: str, *, timeout_s: float) -> Iterator[Finding]:
    """Yield what is found.

    Args:
        url: of the Redis, or with `cluster=true` in its query, of one server of a Redis Cluster.
        timeout_s: longest wait for each answer.
    """
    import redis
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisClusterException
    from redis.retry import Retry

    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    wants_cluster = options.pop("cluster", "false").lower() == "true"
    where = f"{parts.hostname or '?'}:{port_of(url) or 6379}"
    try:
        plain = parts._replace(query=urlencode(options)).geturl()
        waits = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "retry": Retry(NoBackoff(), 0)}
        with redis.Redis.from_url(plain, protocol=2, **waits) as client:
            yield from _look(client, where, wants_cluster=wants_cluster)
            if not wants_cluster:
                yield scripts(client)
        if wants_cluster:  # any of its servers may have the key
            with redis.RedisCluster.from_url(plain, protocol=2, **waits) as cluster:
                yield scripts(cluster)
    except (redis.RedisError, RedisClusterException, TypeError, ValueError) as error:
        said = without_secrets(error, parts.password, unquote(parts.password or ""))
        advice = "start it, or correct BOTS_REDIS_URL: check the host, port, user and password"
        yield problem("redis", f"Redis at {where} can't be used: {said}", advice)


def _look(client: Any, where: str, *, wants_cluster: bool) -> Iterator[Finding]:
    before = time.time()
    seconds, microseconds = client.time()
    after = time.time()
    info: Info = client.info()
    yield version(info, where)
    yield role(info, wants_cluster=wants_cluster)
    yield eviction(info)
    yield memory(info)
    yield persistence(info)
    yield clock.compare("redis clock", seconds + microseconds / 1e6, before=before, after=after)


def port_of(url: str) -> int | None:
    """Return the port that the URL names, None if it names none, or one that can't be."""
    try:
        return urlsplit(url).port
    except ValueError:
        return None


def version(info: Info, where: str) -> Finding:
    """Judge the server's version."""
    said = f"Redis {info['redis_version']} at {where}"
    if tuple(int(part) for part in str(info["redis_version"]).split(".")[:2]) < MIN_VERSION:
        return problem("redis", said, "use Redis 6.2 or later")
    return ok("redis", said)


def role(info: Info, *, wants_cluster: bool) -> Finding:
    """Judge whether it takes writes, and is what the URL says."""
    mode = info.get("redis_mode", "standalone")
    if mode == "sentinel":
        return problem("redis role", "it is a Sentinel, which keeps no data", "name the primary that it watches")
    if wants_cluster != (mode == "cluster"):
        said = "it belongs to a cluster" if mode == "cluster" else "it is not a cluster"
        advice = (
            "add ?cluster=true to BOTS_REDIS_URL" if mode == "cluster" else "remove cluster=true from BOTS_REDIS_URL"
        )
        return problem("redis role", said, advice)
    if info.get("role") != "master" and not wants_cluster:
        return problem("redis role", "it is a replica, which is read-only", "name the primary in BOTS_REDIS_URL")
    return ok("redis role", "a cluster" if wants_cluster else "primary")


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
        client.eval(PROBE.source, 1, probe_key("bots"), int(PROBES_S))
    except redis.ResponseError as error:
        advice = (
            "allow EVAL, EVALSHA and what they call on keys bots:*: ACL SETUSER NAME ~bots:* +@all -@dangerous +info"
        )
        return problem("redis scripts", f"refused: {error}", advice)
    return ok("redis scripts", "this user can run them")

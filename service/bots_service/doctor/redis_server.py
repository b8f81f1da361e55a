"""Can Redis share the live state between replicas?"""

import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from bots_service.doctor import finding as clock
from bots_service.doctor import sentinels
from bots_service.doctor.finding import Finding, ok, problem, warning, without_secrets
from bots_service.errors import StorageUnavailableError
from bots_service.retention import PROBES_S
from bots_service.storage.redis.client import RedisAddress, read_address, refusal
from bots_service.storage.redis.connection import MIN_VERSION, PROBE, probe_key

NEARLY_FULL = 0.8
SLOTS = 16_384  # of every Redis Cluster

Info = dict[str, Any]  # what INFO answers: names are Redis's own


def examine(url: str, *, timeout_s: float) -> Iterator[Finding]:
    """Yield what is found.

    Args:
        url: of a Redis, of servers of a Redis Cluster, or of Sentinels, as BOTS_REDIS_URL names them.
        timeout_s: longest wait for each answer.
    """
    import redis
    from redis.exceptions import RedisClusterException

    where = urlsplit(url).netloc.rpartition("@")[2] or "?"
    try:
        yield from _examine(read_address(url), timeout_s)
    except (redis.RedisError, RedisClusterException, StorageUnavailableError, TypeError, ValueError) as error:
        password = urlsplit(url).password
        said = without_secrets(error, password, unquote(password or ""))
        usual = "start it, or correct BOTS_REDIS_URL: check the host, port, user and password"
        yield problem("redis", f"Redis at {where} can't be used: {said}", refusal(error) or usual)


def _examine(address: RedisAddress, timeout_s: float) -> Iterator[Finding]:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    waits: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    waits |= {"retry": Retry(NoBackoff(), 0), "protocol": 2}
    host, port = address.hosts[0]
    if address.sentinel is not None:
        yield from sentinels.examine(address, address.sentinel, waits)
        host, port = sentinels.primary_of(address, address.sentinel, waits)
    with redis.Redis(host=host, port=port, **address.login_and_tls(), **waits) as client:
        yield from _look(client, f"{host}:{port}", wants_cluster=address.is_cluster)
    if address.is_cluster:  # any of its servers may have the key
        with redis.RedisCluster.from_url(address.plain, **waits) as cluster:
            yield shards(cluster.cluster_nodes())
            yield scripts(cluster)


def _look(client: Any, where: str, *, wants_cluster: bool) -> Iterator[Finding]:
    info: Info = client.info()
    yield version(info, where)
    yield role(info, wants_cluster=wants_cluster)
    if info.get("redis_mode") == "sentinel":  # which knows no other command that we need
        return
    before = time.time()
    seconds, microseconds = client.time()
    after = time.time()
    yield eviction(info)
    yield memory(info)
    yield persistence(info)
    yield clock.compare("redis clock", seconds + microseconds / 1e6, before=before, after=after)
    if not wants_cluster:
        yield scripts(client)


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
        advice = "add ?sentinel=NAME to BOTS_REDIS_URL, with the name by which it calls the primary"
        return problem("redis role", "it is a Sentinel, which keeps no data", advice)
    if wants_cluster != (mode == "cluster"):
        said = "it belongs to a cluster" if mode == "cluster" else "it is not a cluster"
        advice = (
            "add ?cluster=true to BOTS_REDIS_URL" if mode == "cluster" else "remove cluster=true from BOTS_REDIS_URL"
        )
        return problem("redis role", said, advice)
    if info.get("role") != "master" and not wants_cluster:
        return problem("redis role", "it is a replica, which is read-only", "name the primary in BOTS_REDIS_URL")
    return ok("redis role", "a cluster" if wants_cluster else "primary")


def shards(nodes: Mapping[str, Mapping[str, Any]]) -> Finding:
    """Judge the servers of a cluster, as CLUSTER NODES lists them."""
    serving = {name: node for name, node in nodes.items() if node["connected"] and "fail" not in node["flags"]}
    primaries = {node["node_id"] for node in serving.values() if "master" in node["flags"] and node["slots"]}
    followed = {node["master_id"] for node in serving.values() if "slave" in node["flags"]}
    slots = sum(
        int(ends[-1]) - int(ends[0]) + 1
        for node in serving.values()
        for ends in node["slots"]
        if node["node_id"] in primaries
    )
    said = f"{len(primaries)} primaries serve {slots} of {SLOTS} slots, {len(primaries - followed)} without a follower"
    if slots < SLOTS:
        return problem("redis cluster", said, "start the servers that are down, or assign their slots to others")
    if primaries - followed:
        return warning("redis cluster", said, "give each primary a follower, which takes over when it dies")
    return ok("redis cluster", said)


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

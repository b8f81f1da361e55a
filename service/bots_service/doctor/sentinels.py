"""Can the Sentinels name the primary, and replace it?"""

from collections.abc import Iterator, Mapping
from typing import Any

from bots_service.doctor.finding import Finding, ok, problem, warning
from bots_service.storage.redis.client import RedisAddress

Waits = Mapping[str, Any]  # how long to wait for each, as a client's arguments


def examine(address: RedisAddress, name: str, waits: Waits) -> Iterator[Finding]:
    """Yield what is found, asking each.

    Args:
        address: of the Sentinels.
        name: what they call the primary.
        waits: arguments of the clients.
    """
    import redis

    known: list[dict[str, Any]] = []
    for host, port in address.hosts:
        with redis.Redis(host=host, port=port, **address.at_sentinels(), **waits) as client:
            try:
                known.append(client.sentinel_master(name))
            except redis.RedisError:
                continue
    yield judge(name, known, named=len(address.hosts))


def judge(name: str, known: list[dict[str, Any]], *, named: int) -> Finding:
    """Judge the Sentinels.

    Args:
        name: what they call the primary.
        known: of each that answers, what it knows of that primary.
        named: how many BOTS_REDIS_URL names.
    """
    said = f"{len(known)} of {named} answer and know {name}"
    if not known:
        return problem("redis sentinels", said, "start them, or correct their addresses and the name in BOTS_REDIS_URL")
    first = known[0]
    sentinels = first["num-other-sentinels"] + 1
    said = f"{said}; {sentinels} watch it, {first['quorum']} must agree, {first['num-slaves']} followers"
    if not first["num-slaves"]:
        return warning("redis sentinels", said, "give the primary a follower: nobody can replace it")
    if sentinels < 3 or len(known) < named:
        return warning(
            "redis sentinels", said, "run three, on three machines: two can't replace the primary if one dies"
        )
    return ok("redis sentinels", said)


def primary_of(address: RedisAddress, name: str, waits: Waits) -> tuple[str, int]:
    """Return the primary's host and port.

    Raises:
        redis.RedisError: no Sentinel knows it.
    """
    from redis.sentinel import Sentinel

    options = {**address.at_sentinels(), **waits}
    asked: Any = Sentinel(address.hosts, sentinel_kwargs=options)  # type: ignore[no-untyped-call] # redis has no types
    host, port = asked.discover_master(name)
    return str(host), int(port)

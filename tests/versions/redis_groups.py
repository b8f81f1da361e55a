"""Redis with a follower, Sentinels that watch them, and a Redis Cluster with followers."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import redis

from tests.servers import RedisClusterNode, RedisServer, running, wait_until

PRIMARY = "mymaster"
DOWN_AFTER_MS = 1000  # of silence; Redis's own default is 30 s
SLOTS = (range(5461), range(5461, 10923), range(10923, 16384))  # of a cluster's three primaries
SENTINEL = f"""
sentinel monitor {PRIMARY} 127.0.0.1 {{port}} 2
sentinel down-after-milliseconds {PRIMARY} {DOWN_AFTER_MS}
sentinel failover-timeout {PRIMARY} 10000
"""


class RedisFollower(RedisServer):
    """A Redis that follows another one, until somebody promotes it."""

    def __init__(self, primary: RedisServer) -> None:
        """Prepare it."""
        super().__init__()
        self._primary = primary

    def command(self) -> list[str]:
        """Return the command line."""
        return [*super().command(), "--replicaof", f"127.0.0.1 {self._primary.port}"]

    def is_in_step(self) -> bool:
        """Say whether it has everything of its primary."""
        with self.client() as client:
            return bool(client.info("replication").get("master_link_status") == "up")


class SentinelServer(RedisServer):
    """A Sentinel."""

    def __init__(self, primary: RedisServer) -> None:
        """Write its file, which it changes later."""
        super().__init__()
        self._file = self.folder / "sentinel.conf"
        self._file.write_text(SENTINEL.format(port=primary.port), "utf-8")

    def command(self) -> list[str]:
        """Return the command line."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        return [super().command()[0], str(self._file), "--sentinel", *options]

    def sees(self, *, followers: int, others: int) -> bool:
        """Say whether it knows so many followers of the primary, and other Sentinels."""
        with self.client() as client:
            found = client.sentinel_master(PRIMARY)
        return bool((found["num-slaves"], found["num-other-sentinels"]) == (followers, others))


@dataclass(frozen=True, slots=True)
class Watched:
    """A primary, its follower, and three Sentinels."""

    primary: RedisServer
    follower: RedisFollower
    sentinels: tuple[SentinelServer, ...]

    @property
    def url(self) -> str:
        """What the service is told."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis://{hosts}/0?sentinel={PRIMARY}"

    def holder(self, _key_of: str) -> RedisServer:
        """Return the server with all keys."""
        return self.primary


@contextmanager
def watched() -> Iterator[Watched]:
    """Start all, and wait until they know each other."""
    with ExitStack() as stack:
        primary = stack.enter_context(running(RedisServer()))
        follower = stack.enter_context(running(RedisFollower(primary)))
        wait_until(follower.is_in_step)
        sentinels = tuple(stack.enter_context(running(SentinelServer(primary))) for _ in range(3))
        wait_until(lambda: all(sentinel.sees(followers=1, others=2) for sentinel in sentinels))
        yield Watched(primary, follower, sentinels)


class RedisGroupNode(RedisClusterNode):
    """A node of a cluster that takes over from another one within about 2 s."""

    def command(self) -> list[str]:
        """Return the command line."""
        return [*super().command(), "--cluster-node-timeout", str(DOWN_AFTER_MS)]

    def execute(self, *command: str | int) -> object:
        """Return what a command answers."""
        with self.client() as client:
            return client.execute_command(*command)


@dataclass(frozen=True, slots=True)
class RedisGroup:
    """A Redis Cluster of three primaries, each with a follower."""

    primaries: tuple[RedisGroupNode, ...]
    followers: tuple[RedisGroupNode, ...]

    @property
    def url(self) -> str:
        """What the service is told: two of the servers, in case one is down when it starts."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.primaries[:2])
        return f"redis://{hosts}/0?cluster=true"

    def holder(self, key_of: str) -> RedisGroupNode:
        """Return the primary with the first key of a pattern."""
        for node in self.primaries:
            with node.client() as client:
                if client.keys(key_of):
                    return node
        raise AssertionError(f"no {key_of}")


@contextmanager
def redis_cluster() -> Iterator[RedisGroup]:
    """Start all six, and wait until each knows the others and each follower its primary."""
    with ExitStack() as stack:
        nodes = tuple(stack.enter_context(running(RedisGroupNode())) for _ in range(6))
        for number, node in enumerate(nodes[:3]):
            node.execute("CLUSTER", "ADDSLOTS", *SLOTS[number])
        for number, node in enumerate(nodes):
            node.execute("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            node.execute("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        wait_until(lambda: all(node.knows(nodes=6) for node in nodes))
        for primary, follower in zip(nodes[:3], nodes[3:], strict=True):
            name = primary.execute("CLUSTER", "MYID")
            assert isinstance(name, bytes)
            wait_until(lambda follower=follower, name=name: _follows(follower, name.decode()))  # type: ignore[misc]
        wait_until(lambda: all(map(_is_in_step, nodes[3:])))
        yield RedisGroup(nodes[:3], nodes[3:])


def _follows(node: RedisGroupNode, name: str) -> bool:
    try:
        node.execute("CLUSTER", "REPLICATE", name)
    except redis.ResponseError:  # it does not know the other one yet
        return False
    return True


def _is_in_step(node: RedisGroupNode) -> bool:
    with node.client() as client:
        return bool(client.info("replication").get("master_link_status") == "up")

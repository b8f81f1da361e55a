"""What BOTS_REDIS_URL says, in each of its forms."""

from pathlib import Path

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool

from bots_service.errors import StorageUnavailableError
from bots_service.storage.redis.client import client_of, close, read_address


def test_one_redis_is_named_as_everywhere():
    address = read_address("rediss://me:p%40ss@[::1]:7000/3?ssl_check_hostname=false")
    assert (address.hosts, address.is_cluster, address.sentinel) == ((("::1", 7000),), False, None)
    wanted = {"username": "me", "password": "p@ss", "db": 3, "ssl": True, "ssl_check_hostname": False}
    assert address.login_and_tls() == wanted


def test_each_host_has_a_port_or_the_usual_one():
    sentinels = read_address("redis://:secret@one,two:7001/0?sentinel=mymaster")
    assert sentinels.hosts == (("one", 26379), ("two", 7001))
    assert sentinels.sentinel == "mymaster"
    cluster = read_address("redis://one,two:7001/0?cluster=true")
    assert (cluster.hosts, cluster.is_cluster) == ((("one", 6379), ("two", 7001)), True)


def test_sentinels_get_the_tls_of_redis_and_a_login_of_their_own(tmp_path: Path):
    ca = tmp_path / "ca.pem"
    ca.touch()
    url = f"rediss://me:secret@one/2?sentinel=m&ssl_ca_certs={ca}"
    tls = {"ssl": True, "ssl_ca_certs": str(ca)}
    assert read_address(url).at_sentinels() == tls
    with_login = read_address(f"{url}&sentinel_username=watcher&sentinel_password=s%26cret")
    assert with_login.at_sentinels() == {**tls, "username": "watcher", "password": "s&cret"}
    assert with_login.login_and_tls() == {**tls, "username": "me", "password": "secret", "db": 2}


async def test_each_kind_gets_its_client():
    kinds: dict[str, type[object]] = {
        "redis://one/0": Redis,
        "redis://one,two/0?sentinel=m": Redis,
        "redis://one,two/0?cluster=true": RedisCluster,
    }
    for url, kind in kinds.items():
        client = client_of(url, 1.0)
        assert isinstance(client, kind)
        is_watched = isinstance(getattr(client, "connection_pool", None), SentinelConnectionPool)
        assert is_watched == ("sentinel" in url)
        await close(client)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://:secret@one,two/0", "several hosts: add [?]sentinel=NAME or [?]cluster=true"),
        ("rediss://:secret@one/0?ssl_ca_certs=/no/such/file", "ssl_ca_certs .* names no file: /no/such/file"),
        ("redis://:secret@one:port/0", "is not a Redis URL"),
        ("redis://:secret@one,two:port/0?sentinel=m", "is not a Redis URL"),
        ("http://:secret@one/0", "is not a Redis URL"),
        ("http://:secret@one/0?sentinel=m", "is not a Redis URL"),
    ],
)
def test_what_can_not_be_is_refused_without_the_password(url: str, said: str):
    with pytest.raises(StorageUnavailableError, match=said) as caught:
        client_of(url, 1.0)
    assert "secret" not in str(caught.value)

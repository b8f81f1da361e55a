"""Keys and their limits hold on every replica of a service."""

import time
from pathlib import Path

import httpx

from tests.servers import RedisServer
from tests.serving import running_service

OPERATOR = {"Authorization": "Bearer the-operators-own-key"}
REVOKED_WITHIN_S = 5.0


def new_key(url: str, **more: object) -> tuple[str, dict[str, str]]:
    """Make a key; return its id and the header that it comes in."""
    wanted = {"name": "shared", "scopes": ["read"], "datasets": ["*"], **more}
    made = httpx.post(f"{url}/keys", json=wanted, headers=OPERATOR).raise_for_status().json()
    return made["id"], {"Authorization": f"Bearer {made['key']}"}


def test_replicas_share_keys_limits_and_revocations(tmp_path: Path, postgres_url: str, redis_server: RedisServer):
    settings = {"database_url": postgres_url, "redis_url": redis_server.url, "redis_timeout_s": "10"}
    settings["admin_key"] = "the-operators-own-key"
    with running_service(tmp_path / "one", **settings) as one, running_service(tmp_path / "two", **settings) as two:
        _, limited = new_key(one.url, rate_limit={"per_second": 1e-4, "burst": 4})
        answers = [httpx.get(f"{url}/version", headers=limited) for url in (two.url, one.url) * 3]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 429, 429]
        assert 9000 < int(answers[-1].headers["Retry-After"]) <= 10_000

        key_id, header = new_key(two.url)
        assert httpx.get(f"{one.url}/datasets", headers=header).status_code == 200  # made elsewhere just now
        httpx.delete(f"{two.url}/keys/{key_id}", headers=OPERATOR).raise_for_status()
        assert httpx.get(f"{two.url}/datasets", headers=header).status_code == 401
        give_up = time.monotonic() + REVOKED_WITHIN_S
        while httpx.get(f"{one.url}/datasets", headers=header).status_code != 401:
            assert time.monotonic() < give_up
            time.sleep(0.05)

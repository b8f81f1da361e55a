"""Nothing that the service writes to its log holds a key, whatever is done with keys, right or wrong."""

import json
from pathlib import Path
from typing import Any

import httpx

from tests.api.keyed import OPERATOR, bearer
from tests.api.pools import solved
from tests.serving import API_KEY, running_service


def use_in_every_way(url: str) -> list[str]:
    """Use keys well and badly, and return all of them."""
    with httpx.Client(base_url=url, headers=bearer(OPERATOR), timeout=60) as http:
        wanted = {"name": "all", "scopes": ["admin"], "datasets": ["*"]}
        kinds: list[dict[str, Any]] = [{}, {"expires_in_seconds": 1e-6}]
        kinds += [{"datasets": ["mine"]}, {}]
        made = [
            http.post("/keys", json={**wanted, **more}, headers={"Idempotency-Key": f"{number}"}).json()
            for number, more in enumerate(kinds)
        ]
        http.post("/keys", json=wanted, headers={"Idempotency-Key": "0"})
        http.get("/keys")
        keys = [key["key"] for key in made]
        http.delete(f"/keys/{made[-1]['id']}")
        wrong = [f"bots_{made[0]['id']}_{'0' * 64}", f"bots_{'0' * 16}_{keys[0][-64:]}", keys[0] + "0", keys[0].upper()]
        for key in keys + wrong:
            http.put("/datasets/guru", json={"tasks": [{"id": "task-1"}]}, headers=bearer(key))
            http.post("/select", json={"dataset": "guru", "count": 1}, headers=bearer(key))
            http.post("/report", json={"dataset": "guru", "outcomes": [solved(1)]}, headers=bearer(key))
            http.post("/select", content=b"{", headers={**bearer(key), "Content-Type": "application/json"})
            http.get("/datasets", headers={"Authorization": key})
            http.get("/datasets", params={"key": key})
            # Mistakes that people make: the key where its id or a name belongs.
            for path in (f"/keys/{key}", f"/datasets/{key}", f"/{key}"):
                http.delete(path)
                http.delete(path, headers=bearer(key))
    return [*keys, *wrong, OPERATOR]


def test_no_key_gets_into_the_log(tmp_path: Path):
    with running_service(tmp_path, log_format="json", log_level="debug", admin_key=OPERATOR) as service:
        keys = use_in_every_way(service.url)
        written = service.log.read_bytes()
    lines = [json.loads(line) for line in written.splitlines() if line.startswith(b"{")]
    told = {(line["event"], line.get("status")) for line in lines}
    assert {("request", 200), ("request", 401), ("request", 403)} <= told
    assert API_KEY.search(keys[0].encode())
    assert not API_KEY.search(written)
    assert [key for key in keys if key.encode() in written] == []
    assert [key for key in keys[:4] if key[-64:].encode() in written] == []

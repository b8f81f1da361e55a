"""Who may call what: every route, with every kind of key; and how keys are made, told once and revoked."""

import sqlite3
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from bots_service.api.app import ROUTES
from bots_service.settings import Settings
from bots_service.wiring import build_app
from tests.api.conftest import serving
from tests.api.pools import bearer, guarded, make_dataset, new_key, require_problem
from tests.api.pools import guarded as guarded_service

ANY = {"read", "select", "report"}
# What opens each route besides admin; None: no key is asked for. A new route must be added here.
OPENED_BY: dict[str, set[str] | None] = {
    "GET /": None,
    "HEAD /": None,
    "GET /page/{name}": None,
    "HEAD /page/{name}": None,
    "GET /livez": None,
    "GET /readyz": None,
    "GET /version": ANY,
    "GET /metrics": {"read"},
    "GET /openapi.json": ANY,
    "GET /docs": ANY,
    "GET /docs/{name}": ANY,
    "POST /select": {"select"},
    "POST /report": {"report"},
    "GET /overview": {"read"},
    "GET /datasets": {"read"},
    "PUT /datasets/{dataset}": set(),
    "GET /datasets/{dataset}": ANY,
    "DELETE /datasets/{dataset}": set(),
    "GET /datasets/{dataset}/tasks": {"read"},
    "POST /datasets/{dataset}/tasks": set(),
    "POST /datasets/{dataset}/subsets": {"select"},
    "DELETE /datasets/{dataset}/tasks": set(),
    "POST /datasets/{dataset}/tasks/restore": set(),
    "PUT /datasets/{dataset}/runs/{run}": set(),
    "GET /datasets/{dataset}/runs/{run}": ANY,
    "PATCH /datasets/{dataset}/runs/{run}": set(),
    "DELETE /datasets/{dataset}/runs/{run}": set(),
    "GET /datasets/{dataset}/runs/{run}/summary": {"read"},
    "GET /datasets/{dataset}/runs/{run}/tags": {"read"},
    "GET /datasets/{dataset}/runs/{run}/tasks": {"read"},
    "GET /datasets/{dataset}/runs/{run}/history": {"read"},
    "GET /datasets/{dataset}/runs/{run}/curve": {"read"},
    "GET /datasets/{dataset}/runs/{run}/calibration": {"read"},
    "GET /datasets/{dataset}/runs/{run}/journal": {"read"},
    "GET /datasets/{dataset}/runs/{run}/leases": {"read"},
    "POST /datasets/{dataset}/runs/{run}/rewind": {"report"},
    "POST /datasets/{dataset}/runs/{run}/evaluations": {"report"},
    "POST /datasets/{dataset}/runs/{run}/finish": {"report"},
    "PUT /datasets/{dataset}/runs/{run}/probe": {"report"},
    "GET /datasets/{dataset}/runs/{run}/export": {"read"},
    "POST /datasets/{dataset}/runs/{run}/import": set(),
    "POST /keys": set(),
    "GET /keys": set(),
    "DELETE /keys/{key_id}": set(),
    "GET /whoami": ANY,
}
FOR_EVERY_DATASET = {"GET /metrics"} | {route for route in OPENED_BY if "/keys" in route}
WHOLE = {"GET /datasets/{dataset}/tasks", "GET /datasets/{dataset}/runs/{run}/export"}
FOR_BROWSERS = {f"{method} {route.path}" for route in ROUTES if not route.include_in_schema for method in route.methods}
OF_A_DATASET = {route for route in OPENED_BY if "{dataset}" in route or route in ("POST /select", "POST /report")}


def expected(route: str, scopes: set[str], patterns: str, dataset: str) -> int | None:
    """Return the status that refuses a key with these rights; None if the route is open to it."""
    opened_by = OPENED_BY[route]
    if opened_by is None:
        return None
    if not scopes:
        return 401
    reaches = patterns == "*" or (route not in FOR_EVERY_DATASET and (dataset == "mine" or route not in OF_A_DATASET))
    return None if reaches and scopes & {*opened_by, "admin"} else 403


def expected_of_runs(route: str, run: str) -> int | None:
    """Return the status that refuses an admin key for the run `default` alone, for its dataset or this run of it."""
    method = route.partition(" ")[0]
    if OPENED_BY[route] is None:
        return None
    if route in FOR_EVERY_DATASET or route in WHOLE:
        return 403
    if "{run}" in route or route in ("POST /select", "POST /report"):
        return None if run == "default" else 403
    changes = method != "GET" and not route.endswith("/subsets")
    return 403 if route in OF_A_DATASET and changes else None


async def call(
    http: httpx.AsyncClient, route: str, dataset: str, key: str | None, run: str = "default"
) -> httpx.Response:
    """Call a route; what is not about access is refused later, or done."""
    method, path = route.split(" ")
    name = "swagger-ui.css" if "docs" in path else "page.css"
    path = path.replace(":path", "").format(dataset=dataset, run=run, task="t1", name=name, key_id="0" * 16)
    body: dict[str, Any] | None = None
    if path in ("/select", "/report"):
        body = {"dataset": dataset, "run": run, **({"count": 1} if path == "/select" else {"outcomes": []})}
    return await http.request(method, path, json=body, headers=bearer(key))


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with guarded_service(tmp_path) as client:
        for name in ("mine", "theirs"):
            await make_dataset(client, name=name)
        yield client


def test_the_table_names_every_route_and_the_application_has_no_other():
    assert {f"{method} {route.path}" for route in ROUTES for method in route.methods} == set(OPENED_BY)
    assert build_app(Settings.model_validate({})).routes == list(ROUTES)


@pytest.mark.parametrize("key", [None, f"bots_{'0' * 16}_{'0' * 64}"])
async def test_without_a_good_key_every_route_but_probes_and_page_answers_401(http: httpx.AsyncClient, key):
    for route in OPENED_BY:
        answer = await call(http, route, "mine", key)
        if expected(route, set(), "", "mine") is None:
            assert answer.status_code == 200, route
        else:
            problem = require_problem(answer, 401, "unauthenticated")
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert key is None or key not in str(problem)


@pytest.mark.parametrize("patterns", ["mine", "*"])
@pytest.mark.parametrize("scope", ["read", "select", "report", "admin"])
async def test_a_key_opens_what_its_scope_and_its_datasets_say(http: httpx.AsyncClient, scope, patterns):
    key = (await new_key(http, scope, datasets=(patterns,)))["key"]
    found, wanted = {}, {}
    for route in OPENED_BY:
        for dataset in ("theirs", "mine"):
            answer = await call(http, route, dataset, key)
            found[route, dataset] = answer.status_code if answer.status_code in (401, 403) else None
            wanted[route, dataset] = expected(route, {scope}, patterns, dataset)
            assert answer.status_code < 500, answer.text
            if answer.status_code == 403:
                require_problem(answer, 403, "forbidden")
    assert found == wanted


@pytest.mark.parametrize("pattern", ["mine/default", "m*/def*"])
async def test_a_key_for_some_runs_opens_these_and_changes_nothing_of_their_dataset(http: httpx.AsyncClient, pattern):
    key = (await new_key(http, "admin", datasets=(pattern,)))["key"]
    found, wanted = {}, {}
    for run in ("others", "default"):
        for route in OPENED_BY:
            answer = await call(http, route, "mine", key, run)
            found[route, run] = answer.status_code if answer.status_code in (401, 403) else None
            wanted[route, run] = expected_of_runs(route, run)
            assert answer.status_code < 500, answer.text
    assert found == wanted
    answer = await call(http, "POST /datasets/{dataset}/runs/{run}/rewind", "mine", key, "others")
    assert answer.json()["detail"] == f"this key has no access to run 'others' of dataset 'mine', only to {pattern}"


async def test_lists_show_the_runs_of_a_key_alone_and_no_fork_begins_with_anothers(http: httpx.AsyncClient):
    for run in ("ada-1", "ada-2", "bob-1"):
        assert (await http.put(f"/datasets/mine/runs/{run}", json={})).status_code == 201
    key = bearer((await new_key(http, "admin", datasets=("mine/ada-*",)))["key"])
    overview = (await http.get("/overview?sort=name", headers=key)).json()
    assert [run["run"] for run in overview["runs"]] == ["ada-1", "ada-2"]
    assert overview["totals"]["runs"] == 2
    for body, status in (({"fork": {"run": "ada-1"}}, 201), ({"fork": {"run": "bob-1"}}, 403)):
        answer = await http.put("/datasets/mine/runs/ada-3", json=body, headers=key)
        assert answer.status_code == status, answer.text


async def test_a_stranger_can_not_tell_whether_a_dataset_exists(http: httpx.AsyncClient):
    key = (await new_key(http, "admin", datasets=("mine",)))["key"]
    for route in sorted(OF_A_DATASET):
        there, not_there = [(await call(http, route, name, key)).json() for name in ("theirs", "thairs")]
        assert there["detail"].replace("theirs", "thairs") == not_there["detail"]
        assert (there["type"], there["status"]) == (not_there["type"], not_there["status"])
        assert there["status"] == 403


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic bWluZTp0aGVpcnM=", "the-operators-own-key"])
async def test_only_a_bearer_key_counts(http: httpx.AsyncClient, header):
    answer = await http.get("/datasets", headers={"Authorization": header})
    require_problem(answer, 401, "unauthenticated")
    assert (await http.get("/datasets", headers={"Authorization": "bearer the-operators-own-key"})).status_code == 200


def test_the_document_says_what_each_route_asks_for():
    document = build_app(Settings.model_validate({})).openapi()
    assert document["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    for route, opened_by in OPENED_BY.items():
        method, path = route.split(" ")
        path = path.replace(":path", "")
        if path not in document["paths"]:
            assert route in FOR_BROWSERS
            continue
        operation = document["paths"][path][method.lower()]
        if opened_by is None:
            assert "security" not in operation
        else:
            assert set(operation["security"][0]["key"]) - {"admin"} == opened_by


ROOT = {"name": "root", "scopes": ["admin"], "datasets": ["*"]}


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with guarded(tmp_path) as client:
        yield client


async def test_a_new_key_is_told_once_and_a_revoked_one_is_refused_from_then_on(closed: httpx.AsyncClient):
    made = await new_key(closed, "select", "report", datasets=("guru*", "b"), expires_in_seconds=60)

    assert made["key"].startswith(f"bots_{made['id']}_")
    assert (made["scopes"], made["datasets"]) == (["report", "select"], ["guru*", "b"])
    age = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert abs(age - timedelta(seconds=60)) < timedelta(milliseconds=1)
    listed = await closed.get("/keys")
    assert listed.json() == {"keys": [{name: made[name] for name in made if name != "key"}], "next_cursor": None}
    assert made["key"][-64:] not in listed.text

    assert (await closed.get("/whoami", headers=bearer(made["key"]))).status_code == 200
    answers = [await closed.delete(f"/keys/{made['id']}", headers={"Idempotency-Key": "gone"}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [204, 204]
    require_problem(await closed.get("/whoami", headers=bearer(made["key"])), 401, "unauthenticated")
    (row,) = (await closed.get("/keys")).json()["keys"]
    assert row["revoked_at"] >= row["created_at"]
    require_problem(await closed.delete(f"/keys/{'0' * 16}"), 404, "unknown-api-key")
    require_problem(await closed.delete("/keys/nonsense"), 422, "invalid-input")


async def test_a_retry_makes_no_second_key_and_does_not_tell_the_first_again(closed: httpx.AsyncClient, tmp_path):
    first, again = [await closed.post("/keys", json=ROOT, headers={"Idempotency-Key": "once"}) for _ in range(2)]

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == {**first.json(), "key": None}
    assert len((await closed.get("/keys")).json()["keys"]) == 1
    other = await closed.post("/keys", json={**ROOT, "name": "x"}, headers={"Idempotency-Key": "once"})
    require_problem(other, 422, "key-reused")
    with sqlite3.connect(tmp_path / "bots.db") as database:
        kept = "".join(map(str, database.execute("SELECT * FROM answers").fetchall()))
    database.close()
    assert first.json()["id"] in kept
    assert first.json()["key"][-64:] not in kept


@pytest.mark.parametrize(
    "change",
    [
        {"name": "tab\there"},
        {"name": "one\n"},
        {"scopes": ["root"]},
        {"datasets": ["a b"]},
        {"datasets": ["*", "a-one\n"]},
        {"datasets": ["[ab]*"]},
        {"datasets": ["*"] * 65},
        {"expires_in_seconds": 1e300},
        {"secret": "mine"},
    ],
)
async def test_a_key_that_can_not_be_is_refused(closed: httpx.AsyncClient, change: dict[str, Any]):
    require_problem(await closed.post("/keys", json={**ROOT, **change}), 422, "invalid-input")
    assert (await closed.get("/keys")).json()["keys"] == []


async def test_the_first_key_closes_an_open_service(tmp_path: Path):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        refused = await http.post("/keys", json={**ROOT, "scopes": ["read"]})
        assert "nobody could make another" in require_problem(refused, 422, "invalid-input")["detail"]
        assert (await http.get("/datasets")).status_code == 200

        root = await new_key(http, "admin")

        require_problem(await http.get("/datasets"), 401, "unauthenticated")
        require_problem(await http.post("/keys", json=ROOT), 401, "unauthenticated")
        http.headers.update(bearer(root["key"]))
        reader = await new_key(http, "read")
        assert (await http.get("/datasets", headers=bearer(reader["key"]))).status_code == 200
        await http.delete(f"/keys/{root['id']}")
        require_problem(await http.get("/datasets"), 401, "unauthenticated")

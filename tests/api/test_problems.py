"""Every refusal has its status and its name, from one table, all the way to the wire."""

import asyncio
import sqlite3
from pathlib import Path

import httpx
import pytest

from bots_service import errors
from bots_service.api.problems import KINDS
from bots_service.errors import BotsError
from tests.api.conftest import serving
from tests.api.pools import RUN, make_dataset, report, require_problem, select, solved

SOON_S = 30.0


def all_errors(root: type[BotsError] = BotsError) -> set[type[BotsError]]:
    """Those of requests; what keeps the service from starting stands beside what starts it."""
    kinds = {kind for kind in root.__subclasses__() if kind.__module__ == errors.__name__}
    return {root}.union(*(all_errors(kind) for kind in kinds))


def test_every_error_has_exactly_one_kind_of_problem():
    assert set(KINDS) == all_errors()


def test_names_are_unique_but_for_the_roots():
    names = [kind.name for kind in KINDS.values()]
    assert len(set(names)) == len(names)
    assert all(name == name.lower().replace("_", "-").replace(" ", "-") for name in names)


def test_statuses_follow_from_whose_fault_it_is():
    for error, kind in KINDS.items():
        if issubclass(error, errors.NotFoundError):
            assert kind.status == 404
        if issubclass(error, errors.ConflictError):
            assert kind.status == 409
        if issubclass(error, errors.InvalidInputError):
            assert kind.status == 422


async def test_an_address_that_is_not_there_is_404_and_a_method_that_is_not_there_405(http):
    require_problem(await http.get("/nothing/here"), 404, "not-found")
    require_problem(await http.get("/datasets/"), 404, "not-found")
    answer = await http.post("/datasets/guru")
    require_problem(answer, 405, "method-not-allowed")
    assert answer.headers["Allow"] == "DELETE, GET, PUT"


async def test_request_ids_are_echoed_or_made_on_every_answer(http):
    await make_dataset(http)
    requests = [
        ("GET", "/livez"),
        ("GET", "/nothing"),
        ("GET", "/datasets/unknown"),
        ("POST", "/livez"),
        ("POST", "/select"),
    ]
    for method, path in requests:
        given = await http.request(method, path, headers={"X-Request-Id": "trainer 7/step 12"})
        assert given.headers["X-Request-Id"] == "trainer 7/step 12"
        made = [(await http.request(method, path)).headers["X-Request-Id"] for _ in range(2)]
        assert len(set(made)) == 2
    for improper in (b"x" * 129, "caf\xe9".encode("latin-1"), b""):
        answer = await http.get("/livez", headers=[(b"X-Request-Id", improper)])
        assert answer.headers["X-Request-Id"].encode("latin-1") != improper


async def test_an_unexpected_failure_is_500_without_any_inside(http, monkeypatch):
    async def fail(*_: object) -> None:
        raise RuntimeError("secret /var/lib/bots")

    monkeypatch.setattr("bots_service.storage.sql.datasets.SqlDatasets.get", fail)
    answer = await http.get("/datasets/guru", headers={"X-Request-Id": "abc"})
    require_problem(answer, 500, "internal")
    assert "secret" not in answer.text
    assert answer.headers["X-Request-Id"] == "abc"


async def test_a_database_that_does_not_answer_is_503_with_retry_after(tmp_path: Path, monkeypatch):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        with sqlite3.connect(tmp_path / "bots.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")  # what a backup tool that hangs does
            answer = await http.post("/report", json={"dataset": "guru", "outcomes": [solved(1)]}, timeout=60)
            require_problem(answer, 503, "storage-unavailable")
            assert int(answer.headers["Retry-After"]) >= 1
            ready = await http.get("/readyz")
            assert (ready.status_code, ready.json()["status"]) == (200, "degraded")  # it can still be read
            assert (await http.get("/livez")).status_code == 200
            other.execute("ROLLBACK")
        other.close()
        async with asyncio.timeout(SOON_S):
            while (await http.get("/readyz")).json()["status"] != "ready":  # noqa: ASYNC110 - probes ask again, too
                await asyncio.sleep(0.05)
        assert (await http.get("/readyz")).json() == {"status": "ready", "checks": {"sql": "ok", "sql_writes": "ok"}}
        assert (await report(http, solved(1)))["seq"] == 1


async def test_a_damaged_journal_is_500_and_says_so(tmp_path: Path):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        for task in range(3):
            await report(http, solved(task))
    database = sqlite3.connect(tmp_path / "bots.db")
    with database:
        database.execute("DELETE FROM journal WHERE seq >= 2")
    database.close()
    async with serving(tmp_path) as http:
        require_problem(await http.get(RUN), 500, "damaged-state")


async def test_the_documents_page_needs_no_network(http):
    page = await http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "http" not in page.text.replace("http-equiv", "")
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png", "start.js", "theme.css"):
        assert f"docs/{asset}" in page.text
        assert len((await http.get(f"/docs/{asset}")).content) > 100
    require_problem(await http.get("/docs/passwd"), 404, "not-found")


async def test_every_reference_in_the_openapi_document_resolves(http):
    document = (await http.get("/openapi.json")).json()

    def references(node: object) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*map(references, node.values()))
        return set().union(*map(references, node)) if isinstance(node, list) else set()

    found = references(document)
    assert found
    assert found == {f"#/components/schemas/{name}" for name in document["components"]["schemas"]} & found


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/version"])
async def test_probes_answer_without_any_dataset(http: httpx.AsyncClient, path):
    assert (await http.get(path)).status_code == 200


async def test_two_selections_at_once_share_no_task(http):
    await make_dataset(http)
    first, second = await select(http, 8), await select(http, 8)
    assert not {task["id"] for task in first["tasks"]} & {task["id"] for task in second["tasks"]}

"""The OpenAPI document explains itself, every refusal has its status and name, and no answer may be kept by others."""

import asyncio
import re
import sqlite3
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from bots_service import errors
from bots_service.api.problems import kind_of
from bots_service.errors import BotsError
from bots_service.retention import DOCS_CACHED_S
from bots_service.settings import Settings
from bots_service.wiring import build_app
from tests.api.conftest import serving
from tests.api.pools import RUN, make_dataset, report, require_problem, solved
from tests.client.answers import ANSWERS

SOON_S = 30.0


def all_errors(root: type[BotsError] = BotsError) -> set[type[BotsError]]:
    """Those of requests; what keeps the service from starting stands beside what starts it."""
    kinds = {kind for kind in root.__subclasses__() if kind.__module__ == errors.__name__}
    return kinds.union(*map(all_errors, kinds))


def test_every_error_has_a_name_of_its_own():
    names = [kind_of(error)[1] for error in all_errors()]
    assert len(set(names)) == len(names)


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
        database.execute("DELETE FROM journal WHERE seq = 2")
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


DOCUMENT = build_app(Settings.model_construct()).openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_property_has_a_description(name: str):
    properties = SCHEMAS[name].get("properties", {})
    assert [key for key, schema in properties.items() if not schema.get("description", "").endswith(".")] == []


def test_the_answers_that_the_client_is_tested_with_are_those_of_the_document():
    known = {}
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
            if "application/json" in (content := answers[0].get("content", {})):
                known[f"{method.upper()} {path}"] = content["application/json"]["schema"]
    assert known.keys() == ANSWERS.keys()
    for route, schema in known.items():
        whole = {**schema, "components": DOCUMENT["components"]}
        errors = [error.message for error in Draft202012Validator(whole).iter_errors(ANSWERS[route])]
        assert (route, errors) == (route, [])


@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/version", "/whoami", RUN, f"{RUN}/export", "/docs", "/metrics", "/none"]
)
async def test_no_answer_may_be_kept_or_taken_for_something_else(http, path):
    await make_dataset(http)
    answer = await http.get(path)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"


async def test_what_is_the_same_for_all_may_be_kept(http):
    for path, said in (("/", "no-cache"), ("/docs/swagger-ui.css", f"max-age={DOCS_CACHED_S:.0f}")):
        answer = await http.get(path)
        assert (answer.headers["Cache-Control"], answer.headers["X-Content-Type-Options"]) == (said, "nosniff")


async def test_the_documentation_runs_its_own_scripts_only_and_in_no_frame(http):
    answer = await http.get("/docs")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["script-src"] == "'self'"
    assert re.findall(r"<script[^>]*>(.*?)</script>", answer.text, re.DOTALL) == ["", ""]
    assert (policy["default-src"], policy["frame-ancestors"]) == ("'none'", "'none'")

"""What a released version left in its stores opens in this one, with the same answers, and goes on.

Each folder here holds what `python -m tools.released` kept of one release; later versions never change it.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import NullPool, create_engine

from bots_service import __version__
from bots_service.storage.sql.migrate import current, head
from bots_service.storage.sql.url import sql_url
from tests.api.conftest import serving
from tests.released import scenario
from tests.released.stores import PRODUCTS, restore_database, restore_redis, table_statements
from tests.servers import PostgresServer, RedisServer
from tools.breaking_changes import may_break
from tools.public_names import public_names

RELEASES = sorted(Path(__file__).parent.glob("[0-9]*"))
CLOSE = 1e-9  # relative: scipy may round in another way in another version
# What depends on the time of the question, or on the store: leases are in memory or Redis, and may be gone.
OF_THE_MOMENT = {"leased", "degraded"}

Open = Callable[[], AbstractAsyncContextManager[httpx.AsyncClient]]


def told(release: Path) -> dict[str, Any]:
    """Return what the released service was asked and answered."""
    return json.loads((release / "answers.json").read_text("utf-8"))


@pytest.fixture(params=RELEASES, ids=lambda release: release.name)
def release(request: pytest.FixtureRequest) -> Path:
    """The folder of each release, one after the other."""
    return request.param


@pytest.fixture
def on_sqlite(release: Path, tmp_path: Path) -> str:
    """The URL of a SQLite file that the release left."""
    url = f"sqlite:///{tmp_path / 'bots.db'}"
    restore_database(url, release)
    return url


@pytest.fixture
def on_postgresql(release: Path, postgres: PostgresServer):
    """The URL of a PostgreSQL database that the release left."""
    url = postgres.new_database()
    restore_database(url, release)
    yield url
    postgres.drop_database(url)


@pytest.fixture(params=["on_sqlite", "on_postgresql"])
def database(request: pytest.FixtureRequest) -> str:
    """The URL of what the release left, on each product."""
    return request.getfixturevalue(request.param)


@asynccontextmanager
async def opened(release: Path, url: str, folder: Path, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Start this version on a database of the release; the client has the key that the release gave out."""
    async with serving(folder, database_url=url, snapshot_every=scenario.SNAPSHOT_EVERY, **settings) as http:
        http.headers["Authorization"] = f"Bearer {told(release)['key']}"
        yield http


def require_same(answer: Any, before: Any, where: str) -> None:
    """Check that an answer holds all that an older one held; more fields may have come."""
    if isinstance(before, dict):
        for name, value in before.items():
            if name not in OF_THE_MOMENT:
                assert name in answer, f"{where}.{name} is gone"
                require_same(answer[name], value, f"{where}.{name}")
    elif isinstance(before, list):
        assert len(answer) == len(before), where
        for place, (one, other) in enumerate(zip(answer, before, strict=True)):
            require_same(one, other, f"{where}[{place}]")
    elif isinstance(before, float):
        assert answer == pytest.approx(before, rel=CLOSE, abs=CLOSE), where
    else:
        assert answer == before, where


async def require_all_answers(http: httpx.AsyncClient, release: Path, *, but: str = " ") -> None:
    for path, before in told(release)["answers"].items():
        if not path.endswith(but):
            answer = await http.get(path)
            assert answer.status_code == 200, answer.text
            require_same(answer.json(), before, path)


@pytest.mark.parametrize("product", PRODUCTS)
def test_migrations_that_were_released_stay_as_they_are(release: Path, product: str):
    before = (release / f"tables.{product}.sql").read_text("utf-8").split()
    assert table_statements(product).split()[: len(before)] == before


async def test_every_answer_is_as_before(release: Path, database: str, tmp_path: Path):
    async with opened(release, database, tmp_path) as http:
        assert current(database) == head()
        await require_all_answers(http, release)


async def test_the_journal_alone_leads_to_the_same_answers(release: Path, on_sqlite: str, tmp_path: Path):
    with create_engine(sql_url(on_sqlite), poolclass=NullPool).begin() as connection:
        # Stored states of a pruned run are all that is left of its beginning.
        dropped = "DELETE FROM snapshots WHERE run_id IN (SELECT id FROM runs WHERE pruned = 0)"
        assert connection.exec_driver_sql(dropped).rowcount > 0
    async with opened(release, on_sqlite, tmp_path) as http:
        await require_all_answers(http, release, but="/snapshots")


async def test_every_run_goes_on(release: Path, database: str, tmp_path: Path):
    async with opened(release, database, tmp_path) as http:
        caller = scenario.Caller(http)
        for run in scenario.RUNS:
            path = f"{scenario.RUN_PATH}/{run}"
            before = (await http.get(path)).json()
            await caller.send("PATCH", path, {"tasks_per_step": None})
            selection = await caller.send("POST", "/select", {"dataset": "pool", "run": run, "count": 3})
            outcomes = [{"task": one["id"], "successes": 3, "trials": 8} for one in selection["tasks"]]
            report = {"dataset": "pool", "run": run, "selection_id": selection["selection_id"], "outcomes": outcomes}
            receipt = await caller.send("POST", "/report", {**report, "close_step": True})
            assert receipt["step"] == before["step"] + 1
            rewound = await caller.send("POST", f"{path}/rewind", {"step": before["step"]})
            assert (rewound["step"], rewound["epoch"]) == (before["step"], before["epoch"] + 1)


async def test_a_retry_gets_the_answer_from_before(release: Path, database: str, tmp_path: Path):
    async with opened(release, database, tmp_path) as http:
        for request in told(release)["retries"]:
            if request["path"] != "/select":  # kept in Redis: below
                await require_known(http, request)


async def require_known(http: httpx.AsyncClient, request: dict[str, Any]) -> None:
    """Check that a retry is answered as the released service answered it: once more, or refused after a rewind."""
    answer = await scenario.again(http, request)
    assert answer.status_code == request["status"], f"{request['key']}: {answer.text}"
    assert ("Idempotent-Replayed" in answer.headers) == answer.is_success
    require_same(answer.json(), request["answer"], request["key"])


async def test_what_redis_holds_is_read(release: Path, on_postgresql: str, redis_server: RedisServer, tmp_path: Path):
    restore_redis(redis_server.client(), release)
    async with opened(release, on_postgresql, tmp_path, redis_url=redis_server.url) as http:
        (waiting,) = (one for one in told(release)["retries"] if one["key"] == scenario.WAITING_KEY)
        await require_known(http, waiting)
        in_flight = {task["id"] for task in waiting["answer"]["tasks"]}
        others = (await http.post("/select", json={**scenario.WAITING, "count": 5})).json()
        assert others["reused"] == 0
        assert in_flight.isdisjoint(task["id"] for task in others["tasks"])
        outcomes = [{"task": task, "successes": 1, "trials": 8} for task in sorted(in_flight)]
        report = {"dataset": "pool", "selection_id": waiting["answer"]["selection_id"], "outcomes": outcomes}
        receipt = (await http.post("/report", json=report)).raise_for_status().json()
        assert (receipt["late"], receipt["seq"]) == (0, waiting["answer"]["seq"] + 1)


async def test_no_name_is_gone_that_this_version_must_keep(
    release: Path, on_postgresql: str, redis_server: RedisServer, tmp_path: Path
):
    async with opened(release, on_postgresql, tmp_path, redis_url=redis_server.url) as http:
        names = public_names((await http.get("/metrics")).text)
    if not may_break(release.name, __version__):
        assert sorted(set((release / "names.txt").read_text("utf-8").splitlines()) - set(names)) == []


async def test_a_backup_comes_back(release: Path, tmp_path: Path):
    async with serving(tmp_path) as http:
        backup = (release / "pool.botsbackup").read_bytes()
        made = await http.post("/imports", content=backup, headers={"Content-Type": "application/vnd.bots.backup"})
        assert made.status_code == 201, made.text
        for path, before in told(release)["answers"].items():
            # A backup holds no outlooks, and stored states only where they were asked for.
            if path.startswith(f"{scenario.RUN_PATH}/") and path.endswith(("/history?limit=1000", "/tasks?limit=1000")):
                require_same((await http.get(path)).json(), before, path)

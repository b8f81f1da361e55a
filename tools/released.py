"""Freeze what this version writes and promises: tests/released/VERSION, with which each later version is compared.

    python -m tools.released

A service on PostgreSQL and Redis plays `tests/released/scenario.py`. What it then holds and answers is kept, with a
backup, the API's document without its prose, all public names, and what a training job has on its disk. Run it in the
repository's root, once for each release, just before its tag; later versions never change these files.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from bots_service import __version__
from tests.api.conftest import serving
from tests.released import client_state, scenario, stores
from tests.servers import PostgresServer, RedisServer, running
from tools.breaking_changes import DOCUMENT, RELEASED
from tools.public_names import public_names

PROSE = {"description", "summary", "title", "example", "examples"}
OF_RUN = ("", "/history?limit=1000", "/tasks?limit=1000", "/journal?limit=100", "/snapshots", "/calibration", "/tags")
OF_ALL = ("/datasets", "/datasets/pool", "/datasets/made", "/datasets/pool/runs", "/keys", "/whoami")
OPERATOR = "of-the-released-service"


async def freeze(folder: Path, database: str, server: RedisServer, scratch: Path) -> None:
    """Play the scenario, and write all files but the document."""
    more: dict[str, float | str] = {"snapshot_every": scenario.SNAPSHOT_EVERY, "admin_key": OPERATOR}
    async with serving(scratch, database_url=database, redis_url=server.url, **more) as http:
        http.headers["Authorization"] = f"Bearer {OPERATOR}"
        wanted = {"name": "everything", "scopes": ["admin", "read", "report", "select"], "datasets": ["*"]}
        caller = scenario.Caller(http)
        key = (await caller.send("POST", "/keys", wanted))["key"]
        http.headers["Authorization"] = f"Bearer {key}"
        await scenario.play(caller)
        retries = [{**sent, **answered(await scenario.again(http, sent))} for sent in caller.sent]
        (folder / "pool.botsbackup").write_bytes((await http.get("/datasets/pool/export")).content)
        answers = {path: (await http.get(path)).raise_for_status().json() for path in paths()}
        names = public_names((await http.get("/metrics")).text)
    write(folder / "answers.json", {"key": key, "retries": retries, "answers": answers})
    (folder / "names.txt").write_text("\n".join(names) + "\n", "utf-8")


def answered(answer: httpx.Response) -> dict[str, Any]:
    """Return what is kept of the answer to a retry: the first one, or why there is none, as after a rewind."""
    if answer.is_success and "Idempotent-Replayed" not in answer.headers:
        raise ValueError(f"{answer.request.url}: a retry was done once more")
    return {"status": answer.status_code, "answer": answer.json()}


def paths() -> list[str]:
    """Return what is asked of the service in the end."""
    runs = [f"/datasets/pool/runs/{run}" for run in scenario.RUNS] + ["/datasets/made/runs/default"]
    return [*OF_ALL, *(run + part for run in runs for part in OF_RUN), "/datasets/pool/runs/default/tasks/t8/history"]


def without_prose(document: Any) -> Any:
    """Return a document without what only people read; fields with these names stay."""
    if isinstance(document, list):
        return [without_prose(part) for part in document]
    if not isinstance(document, dict):
        return document
    return {
        name: {field: without_prose(schema) for field, schema in part.items()}
        if name == "properties"
        else without_prose(part)
        for name, part in document.items()
        if name not in PROSE
    }


def write(path: Path, value: Any, *, depth: int = 2) -> None:
    """Write JSON with each part down to a depth on lines of its own: neither long nor one line."""
    path.write_text(_text(value, depth) + "\n", "utf-8")


def _text(value: Any, depth: int) -> str:
    if depth == 0 or not value or not isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        parts, (first, last) = [_text(part, depth - 1) for part in value], "[]"
    else:
        parts = [f"{json.dumps(name)}: {_text(part, depth - 1)}" for name, part in value.items()]
        first, last = "{}"
    return "\n".join([first, ",\n".join(parts), last])


def main() -> int:
    """Write all files of this version."""
    folder = RELEASED / __version__
    folder.mkdir(parents=True, exist_ok=True)
    with (
        running(PostgresServer(fsync="off")) as postgres,
        running(RedisServer()) as redis,
        tempfile.TemporaryDirectory() as scratch,
    ):
        database = postgres.new_database()
        asyncio.run(freeze(folder, database, redis, Path(scratch)))
        write(folder / "client.json", client_state.leave(Path(scratch)))
        rows = stores.rows_of(database)
        write(folder / "rows.json", rows)
        write(
            folder / "redis.json",
            stores.keys_of(redis.client(), [row["uid"] for row in rows["runs"] if row["name"] == "default"]),
        )
    for product in stores.PRODUCTS:
        (folder / f"tables.{product}.sql").write_text(stores.table_statements(product), "utf-8")
    write(folder / "openapi.json", without_prose(json.loads(DOCUMENT.read_text("utf-8"))), depth=3)
    print(f"Wrote {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

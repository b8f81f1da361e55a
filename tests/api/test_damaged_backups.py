"""Backups with right checksums and any value changed: refused, or all that they hold can be read and gone on with."""

import asyncio
import hashlib
import json
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bots_service.core.codec import pack, unpack
from tests.api.conftest import serving
from tests.api.pools import RUN, make_dataset, report, solved

HEAD = struct.Struct("<II")
BEGIN = 10  # bytes before the first record
INTEGERS = [0, -1, 1, 2, 3, 2**31 - 1, 2**31, 2**53, -(2**63), 10**30]
NUMBERS = [0.0, -0.5, 0.5, 1.0, 7.0, 1e6, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan]
OTHERS: list[Any] = [None, True, False, "", "nul\0", "x" * 3000, "rewind", [], {}]


@dataclass
class Service:
    """A service, a backup, and the loop in which both were made."""

    http: httpx.AsyncClient
    records: list[Any]
    runner: asyncio.Runner


@pytest.fixture(params=["sqlite", "postgresql"], scope="module")
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on each product whose dataset lived, was exported, and is gone."""
    url = None
    if request.param == "postgresql":
        postgres = request.getfixturevalue("postgres")
        url = postgres.new_database(like=request.getfixturevalue("migrated_postgres"))
    values = {} if url is None else {"database_url": url}
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        http = runner.run(stack.enter_async_context(serving(tmp_path_factory.mktemp("service"), **values)))
        backup = runner.run(lived(http))
        yield Service(http, list(map(spread, records_of(backup))), runner)
        runner.run(stack.aclose())


async def lived(http: httpx.AsyncClient) -> bytes:
    """Return the backup of a dataset that lived a little, and is gone."""
    await make_dataset(http, 12, belief="bots")
    for step in range(3):
        await report(http, solved(step + 1), solved(step + 4, 3))
    (await http.post(f"{RUN}/rewind", json={"step": 2})).raise_for_status()
    await report(http, solved(9), close_step=False)
    (await http.patch(RUN, json={"target": 0.25})).raise_for_status()
    (await http.post(f"{RUN}/snapshots")).raise_for_status()
    tracked = "/datasets/guru/runs/tracked"
    (await http.put(tracked, json={"belief": "tracker"})).raise_for_status()
    for step in range(2):
        await report(http, solved(step + 1), solved(step + 4, 3), run="tracked")
    (await http.post(f"{tracked}/snapshots")).raise_for_status()
    (await http.put("/datasets/guru/runs/fork", json={"fork": {"run": "default", "step": 1}})).raise_for_status()
    (await http.get(f"{RUN}/history")).raise_for_status()  # receipts are made at the latest now
    backup = (await http.get("/datasets/guru/export")).content
    (await http.delete("/datasets/guru")).raise_for_status()
    return backup


def records_of(backup: bytes) -> list[Any]:
    """Return the records but for the last, as plain values."""
    records, at = [], BEGIN
    while at < len(backup):
        length, _ = HEAD.unpack_from(backup, at)
        at += HEAD.size + length
        records.append(msgspec.msgpack.decode(backup[at - length : at]))
    return records[:-1]


def written(records: list[Any]) -> bytes:
    bodies = [msgspec.msgpack.encode(record) for record in records]
    body = b"BOTSBKUP\1\0" + b"".join(HEAD.pack(len(one), zlib.crc32(one)) + one for one in bodies)
    end = msgspec.msgpack.encode({"type": "end", "sha256": hashlib.sha256(body).digest()})
    return body + HEAD.pack(len(end), zlib.crc32(end)) + end


def spread(record: Any) -> Any:
    """Return the record with what is packed within it as plain values, too."""
    if record["type"] == "entries":
        return {**record, "rows": [[*row[:4], json.loads(row[4]), *row[5:]] for row in record["rows"]]}
    if record["type"] == "receipts":
        return {**record, "rows": [[listed(value) for value in row] for row in record["rows"]]}
    if record["type"] == "snapshot":
        header, arrays = unpack(record["blob"])
        shown = {name: [array.dtype.str, array.shape, array.ravel().tolist()] for name, array in arrays.items()}
        return {**record, "blob": {"header": header, "arrays": shown}}
    return record


def listed(value: Any) -> Any:
    """Return the numbers that bytes stand for; anything else as it is."""
    return np.frombuffer(value).tolist() if isinstance(value, bytes) else value


def packed(record: Any) -> Any:
    """Return the record as `spread` found it, with right checksums."""
    if record["type"] == "entries":
        return {**record, "rows": [[*row[:4], json.dumps(row[4]), *row[5:]] for row in record["rows"]]}
    if record["type"] == "receipts":
        rows = [
            [np.array(value).tobytes() if isinstance(value, list) else value for value in row] for row in record["rows"]
        ]
        return {**record, "rows": rows}
    if record["type"] == "snapshot":
        held, row = record["blob"], record["row"]
        arrays = {
            name: np.array(flat).astype(kind).reshape(shape) for name, (kind, shape, flat) in held["arrays"].items()
        }
        blob = pack(held["header"], arrays)
        same = {name: held["header"][name] for name in ("seq", "epoch", "step")}
        return {
            **record,
            "blob": blob,
            "row": {**row, **same, "bytes": len(blob), "checksum": f"{zlib.crc32(blob):08x}"},
        }
    return record


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each value's container and key."""
    for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
        if key != "type" or len(node) < 2:
            yield node, key
        if isinstance(value, dict | list):
            yield from places(value)


def others_than(value: Any) -> list[Any]:
    """Return what may stand in a value's place: mostly of its kind, or all would be refused as unreadable."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value + 1, value - 1, *INTEGERS, None]
    if isinstance(value, float):
        return [value * 2, value / 2, -value, *NUMBERS, None]
    return [not value, *OTHERS] if isinstance(value, bool) else [*INTEGERS[:3], *NUMBERS[:3], *OTHERS]


@settings(max_examples=30)
@given(data=st.data())
def test_a_backup_with_any_value_changed_is_refused_or_works(service: Service, data: st.DataObject):
    records = json_copy(service.records)
    for _ in range(data.draw(st.integers(1, 2))):
        node, key = data.draw(st.sampled_from(list(places(data.draw(st.sampled_from(records))))))
        node[key] = data.draw(st.sampled_from(others_than(node[key])))
    try:
        with np.errstate(all="ignore"):
            backup = written([packed(record) for record in records])
    except (AttributeError, KeyError, LookupError, OverflowError, TypeError, ValueError):
        return  # no bytes say this
    service.runner.run(is_refused_or_works(service.http, backup))


def json_copy(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: json_copy(value) for key, value in node.items()}
    return [json_copy(value) for value in node] if isinstance(node, list | tuple) else node


def test_the_backup_itself_works(service: Service):
    backup = written([packed(record) for record in json_copy(service.records)])
    assert service.runner.run(is_refused_or_works(service.http, backup)) == 201


async def is_refused_or_works(http: httpx.AsyncClient, backup: bytes) -> int:
    answer = await http.post("/imports", content=backup, headers={"Content-Type": "application/vnd.bots.backup"})
    names = [dataset["name"] for dataset in (await http.get("/datasets")).json()["datasets"]]
    if answer.status_code != 201:
        # 404: it says that it is a run's, whose dataset would have to be here.
        assert answer.status_code in (404, 422), answer.text
        assert names == []
        return answer.status_code
    (name,) = names
    for run in (await http.get(f"/datasets/{name}/runs")).json()["runs"]:
        path = f"/datasets/{name}/runs/{run['run']}"
        for read in (
            "",
            "/history",
            "/curve",
            "/calibration",
            "/journal",
            "/tasks",
            "/snapshots",
            "/outlooks",
            "/leases",
        ):
            await require_answer(http, "GET", path + read)
        await require_answer(http, "POST", "/select", {"dataset": name, "run": run["run"], "count": 3})
        told = {"dataset": name, "run": run["run"], "outcomes": [solved(7)], "close_step": True}
        step = (await require_answer(http, "POST", "/report", told)).json().get("step", 0)
        for back in range(step, -1, -1):  # to every state that the journal leads to
            await require_answer(http, "POST", f"{path}/rewind", {"step": back})
        await require_answer(http, "GET", f"{path}/history")
    (await http.delete(f"/datasets/{name}")).raise_for_status()
    return 201


async def require_answer(http: httpx.AsyncClient, method: str, path: str, body: Any = None) -> httpx.Response:
    answer = await http.request(method, path, json=body)
    assert answer.status_code < 500, (method, path, answer.text)
    return answer

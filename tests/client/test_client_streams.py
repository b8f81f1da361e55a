"""Bodies too large for memory, in both directions."""

import json
import os

import pytest

from bots_client import DeadlineExceededError, InvalidRequestError, Retries, ServiceError, UnreachableError
from bots_client._http import CHUNK_BYTES
from tests.client.answers import DATASET
from tests.client.scripted_server import answer, cut_short, drop, problem, stay_silent

AT_ONCE = Retries(first_wait_s=0)
NDJSON = "application/x-ndjson"


@pytest.fixture
def pool(tmp_path):
    """A file of two and a half chunks."""
    file = tmp_path / "pool.ndjson"
    file.write_bytes(bytes(range(256)) * (CHUNK_BYTES * 5 // 2 // 256))
    return file


def test_a_file_is_streamed_and_its_progress_told(serve, connect, pool):
    server = serve(answer(DATASET, 201))
    told = []

    made = connect(server).create_dataset(
        "guru", pool, reference_models=["a b", "c"], description="x&y", on_progress=lambda *now: told.append(now)
    )

    (request,) = server.received
    size = pool.stat().st_size
    assert made.name == DATASET["name"]
    assert request.method == "PUT"
    assert request.target == "/datasets/guru"
    head, _, lines = request.body.partition(b"\n")
    assert json.loads(head) == {"reference_models": ["a b", "c"], "description": "x&y"}
    assert (request.headers["content-type"], request.headers["content-length"]) == (NDJSON, str(len(request.body)))
    assert lines == pool.read_bytes()
    assert told == [(CHUNK_BYTES, size), (2 * CHUNK_BYTES, size), (size, size)]


@pytest.mark.parametrize(
    ("ask", "method", "path"),
    [
        (lambda bots, file: bots.append_tasks("guru", file), "POST", "/datasets/guru/tasks"),
        (lambda bots, file: bots.make_subset("guru", file), "POST", "/datasets/guru/subsets"),
        (lambda bots, file: bots.import_run(file, "guru", "r1"), "POST", "/datasets/guru/runs/r1/import"),
    ],
)
def test_other_uploads_are_streamed_too(serve, connect, pool, ask, method, path):
    server = serve(answer({**DATASET, "dataset": "guru", "subset": None, "run": "r1", "seq": 3}))
    ask(connect(server), pool)
    (request,) = server.received
    assert (request.method, request.target, request.body) == (method, path, pool.read_bytes())
    assert (request.headers["content-type"], len(request.key or "")) == (NDJSON, 32)


@pytest.mark.parametrize(
    ("ask", "target"),
    [
        (lambda bots: bots.download_tasks("guru"), "tasks"),
        (lambda bots: bots.export_run("guru", "r1"), "runs/r1/export"),
    ],
)
def test_downloads_are_handed_through(serve, connect, ask, target):
    server = serve(answer(b"content"))
    assert b"".join(ask(connect(server))) == b"content"
    assert server.received[0].target == f"/datasets/guru/{target}"


@pytest.mark.parametrize("name", ["p.jsonl", "p.NDJSON"])
def test_the_name_of_a_file_says_what_it_holds(serve, connect, tmp_path, name):
    server = serve(answer(DATASET))
    (tmp_path / name).write_bytes(b"{}")
    connect(server).create_dataset("guru", str(tmp_path / name))
    assert server.received[0].headers["content-type"] == NDJSON


@pytest.mark.parametrize("name", ["p.parquet", "p.PARQUET"])
def test_parquet_is_refused_with_what_reads_it(connect, name):
    with pytest.raises(InvalidRequestError, match=r"bots datasets import.*to_pylist"):
        connect("http://127.0.0.1:1").create_dataset("guru", name)


def test_chunks_of_a_function_are_sent_as_they_come(serve, connect):
    server = serve(answer(DATASET))
    told = []
    connect(server).create_dataset(
        "guru", lambda: [b"one\n", b"", b"two\n"], media_type=NDJSON, on_progress=lambda *now: told.append(now)
    )
    (request,) = server.received
    assert request.body == b"one\ntwo\n"
    assert request.headers["transfer-encoding"] == "chunked"
    assert told == [(4, None), (4, None), (8, None)]


def test_an_upload_is_begun_anew_under_the_same_key(serve, connect):
    server = serve(drop, problem(503), answer(DATASET))
    opened: list[int] = []

    def chunks():
        opened.append(len(opened))
        yield b"one\n"
        yield b"two\n"

    connect(server, retries=AT_ONCE).create_dataset("guru", chunks, media_type=NDJSON)

    assert opened == [0, 1, 2]
    assert [one.body for one in server.received] == [b"one\ntwo\n"] * 3
    assert len({one.key for one in server.received}) == 1


def test_a_file_is_closed_however_the_upload_ends(serve, connect, pool):
    files = []

    def open_pool():
        files.append(pool.open("rb"))
        return files[-1]

    with pytest.raises(InvalidRequestError, match="422"):
        connect(serve(problem(422))).create_dataset("guru", open_pool, media_type=NDJSON)

    assert [file.closed for file in files] == [True]


def test_an_upload_from_a_slow_disk_ends_at_its_deadline(serve, connect, waits):
    server = serve(answer(DATASET))
    waits.starts_clock()

    def slow():
        for _ in range(9):
            waits.sleep(1)
            yield b"line\n"

    with pytest.raises(DeadlineExceededError):
        connect(server, deadline_s=4.5).create_dataset("guru", slow, media_type=NDJSON)

    assert sum(waits) == 5


def test_what_the_callers_source_raises_comes_through(serve, connect):
    def broken():
        yield b"line\n"
        raise KeyError("no such column")

    with pytest.raises(KeyError, match="no such column"):
        connect(serve(answer(DATASET))).create_dataset("guru", broken, media_type=NDJSON)


@pytest.mark.parametrize("size", [CHUNK_BYTES * 2, CHUNK_BYTES * 4])
def test_a_file_that_changes_meanwhile_is_not_sent_by_halves(serve, connect, pool, size):
    server = serve(answer(DATASET))
    with pytest.raises(InvalidRequestError):
        connect(server).create_dataset("guru", pool, on_progress=lambda *_: os.truncate(pool, size))
    assert [one for one in server.received if one.body] == []


def test_a_missing_file_is_told_before_anything_is_sent(connect, tmp_path):
    with pytest.raises(FileNotFoundError):
        connect("http://127.0.0.1:1").create_dataset("guru", tmp_path / "none.jsonl")


def test_a_stream_that_breaks_off_is_not_begun_anew(serve, connect):
    server = serve(cut_short(b"id,mean"), answer(b"id,mean"))
    with pytest.raises(UnreachableError, match="lost the connection"):
        list(connect(server, retries=AT_ONCE).download_tasks("guru"))
    assert len(server.received) == 1


def test_a_stream_that_never_begins_ends_at_its_deadline(serve, connect):
    with pytest.raises(DeadlineExceededError):
        list(connect(serve(stay_silent), deadline_s=0.2).download_tasks("guru"))


def test_a_refused_stream_is_an_error_like_any_other(serve, connect):
    with pytest.raises(ServiceError, match="500"):
        list(connect(serve(problem(500))).download_tasks("guru"))

"""What each call sends, and what it makes of the answer."""

import inspect
from typing import Any

import numpy as np
import pytest

from bots_client import ConflictError, InvalidRequestError, Outcome, Selection, Task
from bots_client._call import Call
from bots_client._calls import admin_calls, dataset_calls, run_calls, step_calls, summary_calls
from tests.client.answers import (
    API_KEY,
    BELIEF,
    COUNTS,
    DATASET,
    JOURNAL_ENTRY,
    LEASES,
    NEW_API_KEY,
    RECEIPT,
    RUN,
    SELECTION,
    SNAPSHOT,
    SUMMARY,
    TAG,
    TASK_VISIT,
    VERSION,
    WHOAMI,
    page,
)
from tests.client.scripted_server import answer, problem

NOWHERE = "http://127.0.0.1:1"
RUN_PATH = "/datasets/guru/runs/r1"
MIX = {"a": 1, "b": [(0, 3), (9, 1)]}
TASK = Task("math-17", [0.25, None], ["math"])
TASK_JSON = {"id": "math-17", "reference_pass_rates": [0.25, None], "tags": ["math"]}
MADE = Selection(selection_id="s-1", dataset="guru", run="default", tasks=())

# name, arguments, keyword arguments, method, target, JSON body, answer
PREDICTED = {"predictions": [{"id": "a", "pass_rate": 0.25}]}
CALLS = [
    ("create_dataset", ("guru", [TASK]), {}, "PUT", "/datasets/guru", {"tasks": [TASK_JSON]}, DATASET),
    (
        "create_dataset",
        ("guru", [Task("a")], ["small"], "maths"),
        {},
        "PUT",
        "/datasets/guru",
        {"reference_models": ["small"], "description": "maths", "tasks": [{"id": "a"}]},
        DATASET,
    ),
    (
        "create_dataset",
        ("guru", [TASK]),
        {"repeatable": True},
        "PUT",
        "/datasets/guru",
        {"repeatable": True, "tasks": [TASK_JSON]},
        DATASET,
    ),
    (
        "append_tasks",
        ("guru", [TASK]),
        {},
        "POST",
        "/datasets/guru/tasks",
        {"tasks": [TASK_JSON]},
        {"dataset": "guru", "added": 1, "tasks": 4},
    ),
    ("put_predictions", ("guru", "p", {"a": 0.25}), {}, "PUT", "/datasets/guru/predictions/p", PREDICTED, DATASET),
    ("predict_from_run", ("guru", "r1", "e"), {}, "POST", f"{RUN_PATH}/predictions", {"name": "e"}, DATASET),
    ("remove_predictions", ("guru", "p"), {}, "DELETE", "/datasets/guru/predictions/p", None, DATASET),
    (
        "retire_tasks",
        ("guru", ["a"]),
        {},
        "DELETE",
        "/datasets/guru/tasks",
        {"ids": ["a"]},
        {"dataset": "guru", "retired": 1, "tasks": 2},
    ),
    (
        "restore_tasks",
        ("guru", ["a"]),
        {},
        "POST",
        "/datasets/guru/tasks/restore",
        {"ids": ["a"]},
        {"dataset": "guru", "retired": 0, "tasks": 3},
    ),
    ("dataset", ("guru",), {}, "GET", "/datasets/guru", None, DATASET),
    ("datasets", (), {}, "GET", "/datasets", None, page("datasets", DATASET)),
    ("delete_dataset", ("guru",), {}, "DELETE", "/datasets/guru", None, None),
    ("create_run", ("guru", "r1"), {}, "PUT", RUN_PATH, {}, RUN),
    (
        "create_run",
        ("guru", "r1"),
        {"fork_run": "r0", "fork_step": 3, "seed": 7, "reward_range": (-1, 1), "tasks_per_step": None},
        "PUT",
        RUN_PATH,
        {"seed": 7, "reward_range": [-1, 1], "tasks_per_step": None, "fork": {"run": "r0", "step": 3}},
        RUN,
    ),
    ("create_run", ("guru", "r1"), {"fork_run": "r0"}, "PUT", RUN_PATH, {"fork": {"run": "r0"}}, RUN),
    ("update_run", ("guru", "r1"), {"target": 0.6}, "PATCH", RUN_PATH, {"target": 0.6}, RUN),
    ("update_run", ("guru", "r1"), {"mix": MIX}, "PATCH", RUN_PATH, {"mix": {"a": 1, "b": [[0, 3], [9, 1]]}}, RUN),
    ("run", ("guru",), {}, "GET", "/datasets/guru/runs/default", None, RUN),
    ("runs", ("guru",), {"limit": 5}, "GET", "/datasets/guru/runs?limit=5", None, page("runs", RUN)),
    ("delete_run", ("guru", "r1"), {}, "DELETE", RUN_PATH, None, None),
    (
        "tasks",
        ("guru", "r1"),
        {"ids": ["a", "b"], "tag": "math", "search": "é/1", "segment": "stuck", "sort": "-mean", "limit": 7},
        "GET",
        f"{RUN_PATH}/tasks?ids=a&ids=b&tag=math&search=%C3%A9%2F1&segment=stuck&sort=-mean&limit=7",
        None,
        page("tasks", BELIEF),
    ),
    ("count_tasks", ("guru", "r1"), {"tag": "a"}, "GET", f"{RUN_PATH}/tasks?tag=a&limit=1", None, COUNTS),
    (
        "task_history",
        ("guru", "a/b c", "r1"),
        {"limit": 3},
        "GET",
        f"{RUN_PATH}/tasks/a%2Fb%20c/history?limit=3",
        None,
        {**page("history", TASK_VISIT), "pruned": 0},
    ),
    ("history", ("guru", "r1"), {"after_step": 0}, "GET", f"{RUN_PATH}/history?after_step=0", None, page("history")),
    ("leases", ("guru", "r1"), {"ids": 9}, "GET", f"{RUN_PATH}/leases?limit=100&ids=9", None, LEASES),
    ("journal", ("guru", "r1"), {}, "GET", f"{RUN_PATH}/journal", None, page("entries", JOURNAL_ENTRY)),
    (
        "journal",
        ("guru", "r1"),
        {"kinds": ["rewind", "settings"], "limit": 5},
        "GET",
        f"{RUN_PATH}/journal?kind=rewind&kind=settings&limit=5",
        None,
        page("entries", JOURNAL_ENTRY),
    ),
    ("curve", ("guru", "r1"), {"points": 50}, "GET", f"{RUN_PATH}/curve?points=50", None, {"points": []}),
    ("calibration", ("guru",), {}, "GET", "/datasets/guru/runs/default/calibration", None, {"steps": 0, "bins": []}),
    ("outlooks", ("guru", "r1"), {"points": 1}, "GET", f"{RUN_PATH}/outlooks?points=1", None, {"outlooks": []}),
    (
        "prune",
        (),
        {"keep_journal_days": 1.5},
        "POST",
        "/prune",
        {"keep_journal_days": 1.5, "dry_run": False},
        {"dry_run": False, "runs": []},
    ),
    ("forget_tasks", ("guru", ["t1"], "r1"), {}, "POST", f"{RUN_PATH}/forget", {"tasks": ["t1"]}, RUN),
    ("rewind", ("guru", 400, "r1"), {}, "POST", f"{RUN_PATH}/rewind", {"step": 400}, RUN),
    ("snapshot", ("guru", "r1"), {}, "POST", f"{RUN_PATH}/snapshots", None, SNAPSHOT),
    ("snapshots", ("guru", "r1"), {}, "GET", f"{RUN_PATH}/snapshots", None, page("snapshots", SNAPSHOT)),
    ("select", ("guru", 2), {}, "POST", "/select", {"dataset": "guru", "run": "default", "count": 2}, SELECTION),
    (
        "select",
        ("guru", np.int64(2)),
        {"run": "r1", "subset": "s1", "tags": ["math"], "exclude": []},
        "POST",
        "/select",
        {
            "dataset": "guru",
            "run": "r1",
            "count": 2,
            "subset": "s1",
            "tags": ["math"],
            "exclude": [],
        },
        SELECTION,
    ),
    (
        "report",
        (
            "guru",
            [
                Outcome.counts("a", np.int64(7), 16),
                Outcome.rewards("b", np.array([0, 1, 0.5], np.float32)),
                Outcome.aborted("c"),
                Outcome.counts("d", 1, 2, rewards=np.array([1.5, 0.25], np.float32)),
                Outcome.counts("e", 2, 2, effective=np.True_),  # type: ignore[arg-type]  # as numpy compares
                Outcome.rewards("f", [np.True_, False], effective=False),
            ],
        ),
        {"run": "r1", "selection": MADE, "close_step": False},
        "POST",
        "/report",
        {
            "dataset": "guru",
            "run": "r1",
            "selection_id": "s-1",
            "close_step": False,
            "outcomes": [
                {"task": "a", "successes": 7, "trials": 16},
                {"task": "b", "rewards": [0, 1, 0.5]},
                {"task": "c", "status": "aborted"},
                {"task": "d", "successes": 1, "trials": 2, "rewards": [1.5, 0.25]},
                {"task": "e", "successes": 2, "trials": 2, "effective": True},
                {"task": "f", "rewards": [1, 0], "effective": False},
            ],
        },
        RECEIPT,
    ),
    (
        "report",
        ("guru", []),
        {"selection": "s-2"},
        "POST",
        "/report",
        {"dataset": "guru", "run": "default", "selection_id": "s-2", "outcomes": []},
        RECEIPT,
    ),
    (
        "report",
        ("guru", []),
        {"age": 3},
        "POST",
        "/report",
        {"dataset": "guru", "run": "default", "age": 3, "outcomes": []},
        RECEIPT,
    ),
    (
        "create_key",
        ("trainer 7",),
        {"scopes": ["select", "report"], "datasets": ["guru*"], "expires_in_s": 60},
        "POST",
        "/keys",
        {
            "name": "trainer 7",
            "scopes": ["select", "report"],
            "datasets": ["guru*"],
            "expires_in_seconds": 60,
        },
        NEW_API_KEY,
    ),
    ("keys", (), {"limit": 5}, "GET", "/keys?limit=5", None, page("keys", API_KEY)),
    ("overview", (), {}, "GET", "/overview", None, page("runs", SUMMARY)),
    (
        "overview",
        (),
        {"search": "a/b", "dataset": "guru", "status": "idle", "sort": "-step", "limit": 5, "cursor": "c"},
        "GET",
        "/overview?search=a%2Fb&dataset=guru&status=idle&sort=-step&limit=5&cursor=c",
        None,
        page("runs", SUMMARY),
    ),
    ("summary", ("guru", "r1"), {}, "GET", f"{RUN_PATH}/summary", None, SUMMARY),
    ("tags", ("guru", "r1"), {}, "GET", f"{RUN_PATH}/tags", None, {"tags": [TAG]}),
    ("tags", ("guru", "r1"), {"steps": 7}, "GET", f"{RUN_PATH}/tags?steps=7", None, {"tags": [TAG]}),
    ("whoami", (), {}, "GET", "/whoami", None, WHOAMI),
    ("revoke_key", ("0123456789abcdef",), {}, "DELETE", "/keys/0123456789abcdef", None, None),
    ("version", (), {}, "GET", "/version", None, VERSION),
    ("is_ready", (), {}, "GET", "/readyz", None, {"status": "ready"}),
    ("is_live", (), {}, "GET", "/livez", None, {"status": "ok"}),
]


@pytest.mark.parametrize("call", CALLS, ids=[call[0] for call in CALLS])
def test_a_call_sends_what_the_contract_says(serve, connect, call):
    name, args, kwargs, method, target, body, said = call
    server = serve(answer(said, 204 if said is None else 200))

    getattr(connect(server), name)(*args, **kwargs)

    (request,) = server.received
    assert (request.method, request.target) == (method, target)
    assert (request.json if request.body else None) == body
    assert ("content-type" in request.headers) == (body is not None)
    assert (request.key is None) == (method == "GET")
    assert request.headers["accept"] == "application/json"
    assert request.headers["user-agent"].startswith("bots-client/")


def test_every_call_is_in_the_table():
    modules = (admin_calls, dataset_calls, run_calls, step_calls, summary_calls)
    described = {
        name
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    uploads = {"upload_dataset", "upload_tasks", "upload_predictions", "make_subset", "import_run"}
    streamed = {*uploads, "tasks_arrow", "tasks_csv", "export_run", "download_tasks"}
    assert described - {call[0] for call in CALLS} == streamed


def test_names_cannot_lead_to_another_path(serve, connect):
    server = serve(answer(DATASET))
    bots = connect(server)

    bots.dataset("a/b?c#d e")

    assert server.received[0].target == "/datasets/a%2Fb%3Fc%23d%20e"
    for name in ("", ".", ".."):
        with pytest.raises(InvalidRequestError, match="not the name"):
            bots.delete_run("guru", name)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda bots: bots.create_run("guru", "r1", fork_step=3),
        lambda bots: bots.create_run("guru", "r1", target=float("nan")),
        lambda bots: bots.revoke_key("bots_0123456789abcdef_secret"),
        lambda bots: bots.upload_dataset("guru", lambda: [b""]),
    ],
)
def test_a_slip_of_the_caller_is_told_before_anything_is_sent(connect, mistake):
    with pytest.raises(InvalidRequestError):
        mistake(connect(NOWHERE))


def test_a_probe_tells_how_things_are(serve, connect):
    bots = connect(serve(problem(503), answer({"status": "ready"}), problem(404)))

    assert bots.is_ready() is False
    assert bots.is_ready() is True
    with pytest.raises(Exception, match="404"):  # something else listens there: not an answer to the question
        bots.is_live()
    assert connect(NOWHERE).is_live() is False


def test_a_conflict_is_told(serve, connect):
    with pytest.raises(ConflictError):
        connect(serve(problem(409, "dataset-exists"))).create_dataset("guru", [Task("a")])


def test_every_call_reads_or_carries_a_key():
    task, guru = [Task("a")], "guru"
    described: list[Call[Any]] = [
        dataset_calls.create_dataset(guru, task),
        dataset_calls.upload_dataset(guru, lambda: [], media_type="application/x-ndjson"),
        dataset_calls.append_tasks(guru, task),
        dataset_calls.retire_tasks(guru, ["a"]),
        dataset_calls.delete_dataset(guru),
        run_calls.create_run(guru, "r"),
        run_calls.update_run(guru),
        run_calls.delete_run(guru, "r"),
        run_calls.rewind(guru, 3),
        run_calls.snapshot(guru),
        admin_calls.create_key("k", scopes=["read"], datasets=["*"]),
        admin_calls.revoke_key("0123456789abcdef"),
        step_calls.select(guru, 1),
        step_calls.report(guru, []),
    ]

    assert all(len(call.headers["Idempotency-Key"]) == 32 for call in described)
    assert len({call.headers["Idempotency-Key"] for call in described}) == len(described)

"""What each call sends, and what it makes of the answer: values, and lists followed from page to page."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from bots_client import Client, InvalidRequestError, Outcome, Selection, ServiceError, Task
from tests.client.answers import BELIEF, DATASET, NEW_API_KEY, RECEIPT, RUN, RUN_PATH, SELECTION, example, page
from tests.client.scripted_server import answer, drop, problem
from tests.serving import NOWHERE

MIX = {"a": 1, "b": [(0, 3), (9, 1)]}
TASK = Task("math-17", [0.25, None], ["math"])
TASK_JSON = {"id": "math-17", "reference_pass_rates": [0.25, None], "tags": ["math"]}
MADE = Selection(selection_id="s-1", dataset="guru", run="default", tasks=())

OUTCOMES = [
    (Outcome.counts("a", np.int64(7), 16), {"task": "a", "successes": 7, "trials": 16}),
    (Outcome.rewards("b", np.array([0, 1, 0.5], np.float32)), {"task": "b", "rewards": [0, 1, 0.5]}),
    (Outcome.aborted("c"), {"task": "c", "status": "aborted"}),
    (
        Outcome.counts("d", 1, 2, rewards=np.array([1.5, 0.25], np.float32)),
        {"task": "d", "successes": 1, "trials": 2, "rewards": [1.5, 0.25]},
    ),
    (
        Outcome.counts("e", 2, 2, effective=np.True_),  # type: ignore[arg-type]  # as numpy compares
        {"task": "e", "successes": 2, "trials": 2, "effective": True},
    ),
    (Outcome.rewards("f", [np.True_, False], effective=False), {"task": "f", "rewards": [1, 0], "effective": False}),
]
# name, arguments, keyword arguments, method, target, body: JSON, or a list of what NDJSON has a line of
CALLS = [
    ("create_dataset", ("guru", [TASK, Task("a")]), {}, "PUT", "/datasets/guru", [TASK_JSON, {"id": "a"}]),
    ("create_dataset", ("guru", [TASK], ["small"], "maths"), {}, "PUT", "/datasets/guru",
     [{"reference_models": ["small"], "description": "maths"}, TASK_JSON]),
    ("append_tasks", ("guru", [TASK]), {}, "POST", "/datasets/guru/tasks", [TASK_JSON]),
    ("make_subset", ("guru", [Task("a")]), {}, "POST", "/datasets/guru/subsets", [{"id": "a"}]),
    ("retire_tasks", ("guru", ["a"]), {}, "DELETE", "/datasets/guru/tasks", {"ids": ["a"]}),
    ("restore_tasks", ("guru", ["a"]), {}, "POST", "/datasets/guru/tasks/restore", {"ids": ["a"]}),
    ("dataset", ("guru",), {}, "GET", "/datasets/guru", None),
    ("datasets", (), {}, "GET", "/datasets", None),
    ("delete_dataset", ("guru",), {}, "DELETE", "/datasets/guru", None),
    ("create_run", ("guru", "r1"), {}, "PUT", RUN_PATH, {}),
    ("create_run", ("guru", "r1"),
     {"fork_run": "r0", "fork_step": 3, "seed": 7, "reward_range": (-1, 1), "tasks_per_step": None}, "PUT", RUN_PATH,
     {"seed": 7, "reward_range": [-1, 1], "tasks_per_step": None, "fork": {"run": "r0", "step": 3}}),
    ("create_run", ("guru", "r1"), {"fork_run": "r0"}, "PUT", RUN_PATH, {"fork": {"run": "r0"}}),
    ("update_run", ("guru", "r1"), {"target": 0.6}, "PATCH", RUN_PATH, {"target": 0.6}),
    ("update_run", ("guru", "r1"), {"mix": MIX}, "PATCH", RUN_PATH, {"mix": {"a": 1, "b": [[0, 3], [9, 1]]}}),
    ("run", ("guru",), {}, "GET", "/datasets/guru/runs/default", None),
    ("runs", ("guru",), {"limit": 5}, "GET", "/overview?dataset=guru&sort=name&limit=5", None),
    ("delete_run", ("guru", "r1"), {}, "DELETE", RUN_PATH, None),
    ("tasks", ("guru", "r1"),
     {"ids": ["a", "b"], "tag": "math", "search": "é/1", "segment": "unsolved", "sort": "-mean", "limit": 7}, "GET",
     f"{RUN_PATH}/tasks?ids=a&ids=b&tag=math&search=%C3%A9%2F1&segment=unsolved&sort=-mean&limit=7", None),
    ("count_tasks", ("guru", "r1"), {"tag": "a"}, "GET", f"{RUN_PATH}/tasks?tag=a&limit=1", None),
    ("history", ("guru", "r1"), {"after_step": 0}, "GET", f"{RUN_PATH}/history?after_step=0", None),
    ("leases", ("guru", "r1"), {"ids": 9}, "GET", f"{RUN_PATH}/leases?limit=100&ids=9", None),
    ("journal", ("guru", "r1"), {}, "GET", f"{RUN_PATH}/journal", None),
    ("journal", ("guru", "r1"), {"kinds": ["rewind", "settings"], "limit": 5}, "GET",
     f"{RUN_PATH}/journal?kind=rewind&kind=settings&limit=5", None),
    ("evaluate", ("guru", {"heldout/accuracy": np.float32(0.5)}), {"run": "r1", "step": 400}, "POST",
     f"{RUN_PATH}/evaluations", {"values": {"heldout/accuracy": 0.5}, "step": 400}),
    ("evaluate", ("guru", {"a": 1}), {}, "POST", "/datasets/guru/runs/default/evaluations", {"values": {"a": 1}}),
    ("finish", ("guru", "r1"), {}, "POST", f"{RUN_PATH}/finish", None),
    ("curve", ("guru", "r1"), {"points": 50}, "GET", f"{RUN_PATH}/curve?points=50", None),
    ("calibration", ("guru",), {}, "GET", "/datasets/guru/runs/default/calibration", None),
    ("rewind", ("guru", 400, "r1"), {}, "POST", f"{RUN_PATH}/rewind", {"step": 400}),
    ("put_probe", ("guru", {"a": np.float32(0.25), "b": -3}, "r1"), {}, "PUT", f"{RUN_PATH}/probe",
     {"values": {"a": 0.25, "b": -3}}),
    ("select", ("guru", 2), {}, "POST", "/select", {"dataset": "guru", "run": "default", "count": 2}),
    ("select", ("guru", np.int64(2)), {"run": "r1", "subset": "s1", "tags": ["math"], "exclude": []}, "POST",
     "/select", {"dataset": "guru", "run": "r1", "count": 2, "subset": "s1", "tags": ["math"], "exclude": []}),
    ("report", ("guru", [outcome for outcome, _ in OUTCOMES]), {"run": "r1", "selection": MADE, "close_step": False},
     "POST", "/report", {"dataset": "guru", "run": "r1", "selection_id": "s-1", "close_step": False,
                         "outcomes": [wire for _, wire in OUTCOMES]}),
    ("report", ("guru", []), {"selection": "s-2"}, "POST", "/report",
     {"dataset": "guru", "run": "default", "selection_id": "s-2", "outcomes": []}),
    ("report", ("guru", []), {"close_step": True}, "POST", "/report",
     {"dataset": "guru", "run": "default", "close_step": True, "outcomes": []}),
    ("create_key", ("trainer 7",), {"scopes": ["select", "report"], "datasets": ["guru*"], "expires_in_s": 60}, "POST",
     "/keys", {"name": "trainer 7", "scopes": ["select", "report"], "datasets": ["guru*"], "expires_in_seconds": 60}),
    ("keys", (), {"limit": 5}, "GET", "/keys?limit=5", None),
    ("overview", (), {}, "GET", "/overview", None),
    ("overview", (),
     {"search": "a/b", "dataset": "guru", "status": "idle", "sort": "-step", "limit": 5, "cursor": "c"}, "GET",
     "/overview?search=a%2Fb&dataset=guru&status=idle&sort=-step&limit=5&cursor=c", None),
    ("summary", ("guru", "r1"), {}, "GET", f"{RUN_PATH}/summary", None),
    ("whoami", (), {}, "GET", "/whoami", None),
    ("revoke_key", ("0123456789abcdef",), {}, "DELETE", "/keys/0123456789abcdef", None),
    ("version", (), {}, "GET", "/version", None),
    ("is_ready", (), {}, "GET", "/readyz", None),
    ("is_live", (), {}, "GET", "/livez", None),
]  # fmt: skip


STREAMED = {"export_run", "download_tasks", "import_run"}
LISTS = {"datasets", "runs", "tasks", "history", "journal", "keys"}


def says(value: Any, said: Any) -> bool:
    """Whether a value is all that a JSON answer says."""
    if is_dataclass(value):
        return all(says(getattr(value, name), of_it) for name, of_it in said.items())
    if isinstance(said, dict):
        return value.keys() == said.keys() and all(says(value[name], said[name]) for name in said)
    if isinstance(said, list):
        return isinstance(value, tuple) and len(value) == len(said) and all(map(says, value, said))
    if isinstance(value, datetime):
        return value == datetime.fromisoformat(said)
    return value == said and isinstance(value, bool) == isinstance(said, bool)


@pytest.mark.parametrize("call", CALLS, ids=[call[0] for call in CALLS])
def test_a_call_sends_what_the_contract_says_and_reads_the_answer_in_full(serve, connect, call):
    name, args, kwargs, method, target, body = call
    said = example(method, target)
    server = serve(answer(said, 204 if said is None else 200))

    found = getattr(connect(server), name)(*args, **kwargs)
    if name in LISTS:
        said, found = next(value for value in said.values() if isinstance(value, list)), tuple(found)
    elif name == "count_tasks":
        said = said["segments"]

    (request,) = server.received
    assert (request.method, request.target) == (method, target)
    assert request.content == body
    assert ("content-type" in request.headers) == (body is not None)
    assert len(request.key or "") == (0 if method == "GET" else 32)
    assert request.headers["user-agent"].startswith("bots-client/")
    assert found is True if name in ("is_ready", "is_live") else found is said is None or says(found, said)


def test_every_call_is_in_the_table():
    calls = {name for name, method in vars(Client).items() if callable(method) and not name.startswith("_")}
    assert calls - {call[0] for call in CALLS} == STREAMED


@pytest.mark.parametrize(
    ("name", "similar"),
    [("openai/gsm8k", "openai-gsm8k"), ("my data", "my-data"), ("..", None), ("", None), ("ü", None)],
)
def test_a_name_that_would_lead_to_another_path_is_refused_with_one_that_would_not(serve, connect, name, similar):
    server = serve()
    for call in (connect(server).dataset, partial(connect(server).delete_run, "guru")):
        with pytest.raises(InvalidRequestError) as refused:
            call(name)
        assert (f"try {similar!r}" in str(refused.value)) == (similar is not None)
    assert server.received == []


@pytest.mark.parametrize(
    "mistake",
    [
        lambda bots: bots.create_run("guru", "r1", fork_step=3),
        lambda bots: bots.create_run("guru", "r1", target=float("nan")),
        lambda bots: bots.revoke_key("bots_0123456789abcdef_secret"),
        lambda bots: bots.create_dataset("guru", lambda: [b""]),
    ],
)
def test_a_slip_of_the_caller_is_told_before_anything_is_sent(connect, mistake):
    with pytest.raises(InvalidRequestError):
        mistake(connect(NOWHERE))


def test_a_probe_asks_once_how_things_are(serve, connect):
    server = serve(problem(503), answer({"status": "ready"}), problem(404))
    bots = connect(server)
    assert bots.is_ready() is False
    assert bots.is_ready() is True
    with pytest.raises(Exception, match="404"):  # something else listens there: not an answer to the question
        bots.is_live()
    assert len(server.received) == 3
    assert connect(NOWHERE).is_live() is False


def test_a_new_key_does_not_show(serve, connect):
    told = {**NEW_API_KEY, "key": "bots_id_secret"}
    made = connect(serve(answer(told, 201))).create_key("trainer 7", scopes=["select"], datasets=["guru*"])
    assert made.key == "bots_id_secret"
    assert "secret" not in repr(made)


def test_cursors_are_followed_to_the_end_and_a_page_is_asked_for_when_it_is_needed(serve, connect):
    server = serve(
        answer(page("tasks", {**BELIEF, "id": "a"}, {**BELIEF, "id": "b"}, cursor="c/1=")),
        answer(page("tasks", cursor="c2")),  # an empty page may come before the last
        answer(page("tasks", {**BELIEF, "id": "c"})),
    )
    found: Iterator[Any] = connect(server).tasks("guru", tag="math")
    assert server.received == []
    assert [belief.id for belief in found] == ["a", "b", "c"]
    where = "/datasets/guru/runs/default/tasks?tag=math"
    assert [one.target for one in server.received] == [where, f"{where}&cursor=c%2F1%3D", f"{where}&cursor=c2"]


@pytest.mark.parametrize(("limit", "requests"), [(0, 0), (1, 1), (2, 1), (3, 2)])
def test_a_limit_ends_the_list_and_no_page_is_asked_in_vain(serve, connect, limit, requests):
    server = serve(answer(page("datasets", DATASET, DATASET, cursor="c1")), answer(page("datasets", DATASET, DATASET)))
    assert len(list(connect(server).datasets(limit=limit))) == limit
    assert len(server.received) == requests


def test_a_cursor_that_leads_to_itself_ends_in_an_error(serve, connect):
    server = serve(answer(page("datasets", DATASET, cursor="c1")))
    with pytest.raises(ServiceError):
        list(connect(server).datasets())


@pytest.mark.parametrize("said", [[], {"next_cursor": None}, {"datasets": 3}, {"datasets": [], "next_cursor": 3}])
def test_a_page_that_makes_no_sense_is_the_services_fault(serve, connect, said):
    with pytest.raises(ServiceError, match="invalid body"):
        list(connect(serve(answer(said))).datasets())


@pytest.mark.parametrize("name", ["a/b", "a b", "ü", "a%2Fb", "a\r\nb", "", ".."])
def test_selects_and_reports_name_their_run_for_balancers_and_other_calls_do_not(serve, connect, name):
    server = serve(answer(SELECTION), drop, answer(RECEIPT), answer(RUN))
    bots = connect(server)
    bots.select(name, 2, run=name)
    bots.report(name, [], run=name)
    bots.rewind("guru", 3)
    *named, other = server.received
    assert [[unquote(part) for part in one.headers["bots-run"].split("/")] for one in named] == [[name, name]] * 3
    assert (named[0].json["dataset"], named[0].json["run"]) == (name, name)
    assert "bots-run" not in other.headers

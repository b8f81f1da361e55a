import pytest

from tests.api.pools import MODELS, RUN, make_dataset, report, require_problem, select, solved, tasks


async def test_a_new_dataset_is_described_with_what_was_sent(http):
    sent = tasks(20)
    body = {"reference_models": MODELS, "tasks": sent, "description": "a pool"}
    answer = await http.put("/datasets/guru", json=body)
    assert answer.status_code == 201
    described = answer.json()
    assert described["name"] == "guru"
    assert described["description"] == "a pool"
    assert described["reference_models"] == MODELS
    assert described["tasks"] == len(sent)
    assert described["retired"] == 0
    assert described["tags"] == {tag: sum(tag in task["tags"] for task in sent) for tag in ("code", "math")}
    assert (await http.get("/datasets/guru")).json() == described


async def test_the_same_content_again_is_200_and_other_content_is_409(http):
    described = await make_dataset(http)
    again = await http.put("/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(20)})
    assert (again.status_code, again.json()) == (200, described)
    other = await http.put("/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(21)})
    require_problem(other, 409, "dataset-exists")
    assert (await http.get("/datasets/guru")).json() == described


async def test_a_dataset_says_which_tags_tell_its_profiles_apart(http):
    few = await make_dataset(http, 20, "few")
    many = await make_dataset(http, 90, "many")
    without_tags = [{**task, "tags": []} for task in tasks(90)]
    by_rates = (await http.put("/datasets/plain", json={"reference_models": MODELS, "tasks": without_tags})).json()
    assert (few["offset_tags"], many["offset_tags"], by_rates["offset_tags"]) == ([], ["math", "code"], [])
    rates = [tuple(task.get("reference_pass_rates", [None])) for task in tasks(90)]
    known = [(None,) if None in each else each for each in rates]
    assert by_rates["profiles"] == len(set(known))
    assert many["profiles"] == len(set(zip(known, (task["tags"][0] for task in tasks(90)), strict=True)))


async def test_appended_tasks_are_selected_and_keep_the_others_beliefs(http):
    await make_dataset(http, 3)
    await report(http, solved(0), solved(1))
    before = (await http.get(f"{RUN}/tasks")).json()["tasks"]
    answer = await http.post("/datasets/guru/tasks", json={"tasks": tasks(2, first=3)})
    assert answer.json() == {"dataset": "guru", "added": 2, "tasks": 5}
    after = (await http.get(f"{RUN}/tasks")).json()["tasks"]
    assert after[:3] == before
    chosen = await select(http, 5)
    assert {task["id"] for task in chosen["tasks"]} == {f"task-{number}" for number in range(5)}


async def test_appended_tasks_may_not_speak_of_other_reference_models(http):
    await make_dataset(http, 3)
    lines = b'{"reference_models": ["other", "strong"]}\n{"id": "new"}\n'
    answer = await http.post("/datasets/guru/tasks", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert require_problem(answer, 422, "invalid-tasks")["errors"][0]["loc"] == ["body", "reference_models"]


async def test_retired_tasks_are_neither_selected_nor_listed(http):
    await make_dataset(http, 4)
    answer = await http.request("DELETE", "/datasets/guru/tasks", json={"ids": ["task-1", "task-2"]})
    assert answer.json() == {"dataset": "guru", "retired": 2, "tasks": 2}
    again = await http.request("DELETE", "/datasets/guru/tasks", json={"ids": ["task-2"]})
    assert again.json() == answer.json()
    assert {task["id"] for task in (await select(http, 2))["tasks"]} == {"task-0", "task-3"}
    listed = (await http.get(f"{RUN}/tasks")).json()["tasks"]
    assert [task["id"] for task in listed] == ["task-0", "task-3"]


@pytest.mark.parametrize("body", [{}, {"ids": []}, {"ids": ["x"], "more": 1}, {"ids": "task-1"}])
async def test_a_restoration_without_ids_is_refused(http, body):
    await make_dataset(http, 4)
    require_problem(await http.post("/datasets/guru/tasks/restore", json=body), 422, "invalid-request")


async def test_a_deleted_dataset_is_gone_with_its_runs(http):
    await make_dataset(http)
    assert (await http.delete("/datasets/guru")).status_code == 204
    require_problem(await http.get("/datasets/guru"), 404, "unknown-dataset")
    require_problem(await http.get(RUN), 404, "unknown-dataset")
    require_problem(await http.delete("/datasets/guru"), 404, "unknown-dataset")


async def test_paging_walks_all_datasets_by_name(http):
    names = [f"pool-{number}" for number in range(5)]
    for name in reversed(names):
        await make_dataset(http, 1, name)
    seen, cursor = [], None
    while True:
        page = (await http.get("/datasets", params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        assert len(page["datasets"]) <= 2
        seen += [dataset["name"] for dataset in page["datasets"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == names


async def test_query_and_body_may_not_contradict_each_other(http):
    answer = await http.put(
        "/datasets/guru?reference_model=a", json={"reference_models": ["b"], "tasks": [{"id": "x"}]}
    )
    assert require_problem(answer, 422, "invalid-tasks")["errors"][0]["loc"] == ["query", "reference_model"]


async def test_a_dataset_may_be_repeatable(http):
    answer = await http.put("/datasets/levels", json={"repeatable": True, "tasks": [{"id": "easy"}, {"id": "hard"}]})
    assert (answer.status_code, answer.json()["repeatable"]) == (201, True)
    for _ in range(2):
        chosen = (await http.post("/select", json={"dataset": "levels", "count": 5})).json()
        assert sorted({task["id"] for task in chosen["tasks"]}) == ["easy", "hard"]
        assert (len(chosen["tasks"]), chosen["reused"]) == (5, 0)
    assert (await http.get("/datasets/levels/runs/default")).json()["leased"] == 0
    lines = '{"repeatable": true}\n{"id": "easy"}\n'
    for query, status in (("", 201), ("?repeatable=false", 422)):
        name = f"/datasets/lines{query}"
        sent = await http.put(name, content=lines, headers={"Content-Type": "application/x-ndjson"})
        assert sent.status_code == status, sent.text

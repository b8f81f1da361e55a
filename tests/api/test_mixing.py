"""A run's mix over HTTP: set, refused, kept to at any count, shown, and undone by a rewind."""

import pytest

from tests.api.pools import RUN, report, require_problem, select

TAGS = {"math": 60, "code": 30, "lang": 10}


@pytest.fixture
async def mixed(http):
    """The run `default` of 100 tasks, mixed from three parts of math to one of code."""
    tasks = [{"id": f"{tag}-{number}", "tags": [tag]} for tag, count in TAGS.items() for number in range(count)]
    (await http.put("/datasets/guru", json={"tasks": tasks})).raise_for_status()
    (await http.put(RUN, json={"mix": {"math": 3, "code": 1}})).raise_for_status()
    return http


def by_tag(selection):
    counts = dict.fromkeys(TAGS, 0)
    for task in selection["tasks"]:
        counts[task["id"].split("-")[0]] += 1
    return counts


async def train(http, count, **outcome):
    """Select and report; return how many tasks of each tag it was."""
    selection = await select(http, count)
    told = outcome or {"successes": 1, "trials": 2}
    outcomes = [{"task": task["id"], **told} for task in selection["tasks"]]
    await report(http, *outcomes, selection_id=selection["selection_id"])
    return by_tag(selection)


async def mix_of(http):
    return {one["tag"]: one for one in (await http.get(RUN)).json()["mix"]}


async def test_selections_of_one_task_keep_to_the_mix_at_every_point(mixed):
    total = dict.fromkeys(TAGS, 0)
    for number in range(1, 41):
        given = await train(mixed, 1)
        total = {tag: total[tag] + given[tag] for tag in TAGS}
        assert abs(total["math"] - 0.75 * number) < 1
        assert total["lang"] == 0
    assert total == {"math": 30, "code": 10, "lang": 0}


async def test_what_is_aborted_is_owed_again(mixed):
    selection = await select(mixed, 8)
    of_math = [task["id"] for task in selection["tasks"] if task["id"].startswith("math")]
    assert len(of_math) == 6
    outcomes = [
        {"task": task["id"], **({"status": "aborted"} if task["id"] in of_math else {"successes": 1, "trials": 2})}
        for task in selection["tasks"]
    ]
    await report(mixed, *outcomes, selection_id=selection["selection_id"])
    assert by_tag(await select(mixed, 6)) == {"math": 6, "code": 0, "lang": 0}


async def test_a_run_shows_its_mix(mixed):
    await train(mixed, 8)
    assert await mix_of(mixed) == {
        "code": {"tag": "code", "share": 0.25, "owed": 2.0, "given": 2},
        "math": {"tag": "math", "share": 0.75, "owed": 6.0, "given": 6},
    }
    assert (await mixed.get(RUN)).json()["settings"]["mix"] == {"code": 1.0, "math": 3.0}


async def test_a_rewind_takes_the_account_back(mixed):
    for _ in range(3):
        await train(mixed, 5)
    before = await mix_of(mixed)
    await train(mixed, 5)
    assert await mix_of(mixed) != before
    (await mixed.post(f"{RUN}/rewind", json={"step": 3})).raise_for_status()
    assert await mix_of(mixed) == before
    fork = await mixed.put("/datasets/guru/runs/other", json={"fork": {"run": "default", "step": 3}})
    assert {one["tag"]: one for one in fork.json()["mix"]} == before


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_mix_of_tags_that_no_task_has_is_refused_by_name_until_some_have(mixed, method):
    problem = require_problem(
        await mixed.request(method, RUN, json={"mix": {"math": 1, "maths": 1}}), 422, "invalid-settings"
    )
    assert [error["loc"] for error in problem["errors"]] == [["body", "mix", "maths"]]
    (await mixed.post("/datasets/guru/tasks", json={"tasks": [{"id": "m1", "tags": ["maths"]}]})).raise_for_status()
    (await mixed.request(method, RUN, json={"mix": {"math": 1, "maths": 1}})).raise_for_status()

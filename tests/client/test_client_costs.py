"""What answers tell of costs."""

from typing import Any

from bots_client import Cost, Gain, Saving
from tests.client.answers import BELIEF, HISTORY_STEP, RECEIPT, RUN, SUMMARY, TAG, page
from tests.client.scripted_server import answer

TOKENS: dict[str, Any] = {
    "spent": 9000.0,
    "rollouts": 12.0,
    "effective": 3,
    "per_rollout": 750.0,
    "per_effective": 3000.0,
}
SECONDS: dict[str, Any] = {"spent": 4.5, "rollouts": 0.0, "effective": 0, "per_rollout": None, "per_effective": None}
COSTS = {"tokens": TOKENS, "seconds": SECONDS}
READ = (Cost(**TOKENS), Cost(**SECONDS))


def told(found):
    return found.tokens, found.seconds


def test_costs_of_receipt_run_step_and_tag_are_read_in_full(serve, connect):
    assert told(connect(serve(answer(RECEIPT | COSTS))).report("guru", [])) == READ
    assert told(connect(serve(answer(RUN | COSTS))).run("guru")) == READ
    (step,) = connect(serve(answer(page("history", HISTORY_STEP | COSTS)))).history("guru")
    assert told(step) == READ
    (tag,) = connect(serve(answer({"tags": [TAG | COSTS]}))).tags("guru").tags
    assert told(tag) == READ


def test_costs_and_savings_of_a_summary_are_read_in_full(serve, connect):
    saved: dict[str, Any] = {"saved": 800.0, "spent": 9000.0, "rollouts": 12.0, "source": "measured"}
    gain = SUMMARY["gain"] | {"tokens": saved, "seconds": None}
    found = connect(serve(answer(SUMMARY | COSTS | {"recent_tokens": TOKENS, "gain": gain}))).summary("guru")
    assert (told(found), found.recent_tokens, found.recent_seconds) == (READ, READ[0], None)
    assert found.gain == Gain(**SUMMARY["gain"] | {"tokens": Saving(**saved)})


def test_what_a_task_cost_is_read(serve, connect):
    (task,) = connect(serve(answer(page("tasks", BELIEF | {"tokens": 70.5})))).tasks("guru")
    assert told(task) == (70.5, None)

"""TRL trains under the settings of a run and the bounds of a job: mix, bounds, verifier guard."""

import itertools
from dataclasses import replace

from bots_client import Client, ResilientClient, Selector
from bots_client.integrations.torch import from_rank_zero
from tests.trainers import tiny
from tests.trainers.tiny_trl import GENERATIONS, trained


def test_a_run_with_a_mix_trains_on_tags_in_its_ratio(url, tmp_path):
    tagged = [replace(task, tags=["odd" if number % 2 else "even"]) for number, task in enumerate(tiny.TASKS)]
    with Client(url) as direct:
        direct.create_dataset("a-mix", tagged)
        direct.create_run("a-mix", "mixed", mix={"odd": 3, "even": 1})
    with ResilientClient(url, spool=tmp_path / "spool") as client:
        trained(tmp_path / "out", Selector(client, "a-mix", "mixed", ids=tiny.IDS, share=from_rank_zero))
        mix = client.direct.run("a-mix", "mixed").mix
    assert [(one.tag, one.given) for one in mix] == [("even", 2), ("odd", 6)]


def test_a_verifier_that_breaks_under_training_raises_an_alarm_and_its_groups_wait(url, tmp_path):
    batch, usual = 8, 5  # tasks of a step, and steps before it breaks
    with Client(url) as direct:
        direct.create_dataset("broken", tiny.TASKS)
        direct.create_run("broken", "guarded", verifier_guard=True)
    judged = itertools.count()

    def verifier(completions, **_columns):
        is_right = next(judged) < usual
        return [float(is_right and rollout % 2) for rollout in range(len(completions))]

    size = {"per_device_train_batch_size": batch * GENERATIONS, "max_steps": usual + 2}
    with ResilientClient(url, spool=tmp_path / "spool") as client:
        trained(
            tmp_path / "out",
            Selector(client, "broken", "guarded", ids=tiny.IDS, share=from_rank_zero),
            verifier,
            **size,
        )
        (alarm,) = client.direct.run("broken", "guarded").alarms
    assert (alarm.outcome, alarm.since_step, alarm.ongoing, alarm.held) == ("failed", usual + 1, True, 2 * batch)

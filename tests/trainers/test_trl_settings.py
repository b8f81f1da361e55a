"""TRL trains under the settings of a run and the bounds of a job: mix and bounds."""

from dataclasses import replace

from bots_client import Client, ResilientClient, Selector
from bots_client.integrations.torch import from_rank_zero
from tests.trainers import tiny
from tests.trainers.tiny_trl import trained


def test_a_run_with_a_mix_trains_on_tags_in_its_ratio(url, tmp_path):
    tagged = [replace(task, tags=["odd" if number % 2 else "even"]) for number, task in enumerate(tiny.TASKS)]
    with Client(url) as direct:
        direct.create_dataset("a-mix", tagged)
        direct.create_run("a-mix", "mixed", mix={"odd": 3, "even": 1})
    with ResilientClient(url, spool=tmp_path / "spool") as client:
        trained(tmp_path / "out", Selector(client, "a-mix", "mixed", ids=tiny.IDS, share=from_rank_zero))
        mix = client.direct.run("a-mix", "mixed").mix
    assert [(one.tag, one.given) for one in mix] == [("even", 2), ("odd", 6)]


def test_a_run_within_bounds_trains_on_tasks_that_are_neither_too_easy_nor_too_hard(url, tmp_path):
    rated = [
        replace(task, reference_pass_rates=[(0.0, 0.5, 1.0)[number % 3]]) for number, task in enumerate(tiny.TASKS)
    ]
    with Client(url) as direct:
        direct.create_dataset("bounded", rated, reference_models=["weak"])
    with ResilientClient(url, spool=tmp_path / "spool") as client:
        trainer = trained(
            tmp_path / "out",
            Selector(client, "bounded", ids=tiny.IDS, share=from_rank_zero, min_mean=0.3, max_mean=0.7),
        )
        tried = {tiny.IDS.index(task.id) % 3 for task in client.direct.tasks("bounded") if task.visits}
    assert 0 not in tried, "no rollout of the other model solved it"
    means = [entry["bots/selected_mean"] for entry in trainer.state.log_history]
    assert all(0.3 <= mean <= 0.7 for mean in means)

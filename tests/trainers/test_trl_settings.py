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

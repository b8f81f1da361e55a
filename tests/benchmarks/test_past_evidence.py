"""What evidence from old logs is worth: the short form of the benchmark, and the table on the page."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.past_evidence import BELIEFS, CASES, REFERENCES, PastScore, scores, table

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "benchmarks/results/past_evidence.ndjson").read_text("utf-8").splitlines()
KEPT = [PastScore(**json.loads(line)) for line in LINES]


def test_a_log_of_the_same_training_lowers_the_log_loss_of_the_first_steps():
    found = [one for one in scores(seeds=1, steps=12, logged=40) if one.case == CASES[0]]
    assert len(found) == len(BELIEFS) * len(REFERENCES)
    for one in found:
        assert one.with_log < one.without, one


@pytest.mark.parametrize("references", REFERENCES)
@pytest.mark.parametrize("belief", BELIEFS)
def test_where_training_goes_on_the_log_helped_every_seed_that_was_kept(belief: str, references: str):
    found = [one for one in KEPT if (one.case, one.belief, one.references) == (CASES[0], belief, references)]
    assert len(found) >= 5
    assert all(one.with_log < one.without for one in found)


def test_the_page_shows_the_figures_that_were_kept():
    assert table(KEPT) in (ROOT / "docs/decisions/0043-evidence-from-old-logs.md").read_text("utf-8")


def test_concepts_name_the_means_that_were_kept():
    page = " ".join((ROOT / "docs/concepts.md").read_text("utf-8").split())
    for belief, name in zip(BELIEFS, ("BOTS", "the tracker"), strict=True):
        found = [one for one in KEPT if (one.case, one.belief, one.references) == (CASES[0], belief, "two")]
        before, after = fmean(one.without for one in found), fmean(one.with_log for one in found)
        assert re.search(rf"{name} from {before:.3f} to {after:.3f}", page)

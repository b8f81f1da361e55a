"""What every page of docs/trainers has in common with every other."""

import re

from tests.docs.blocks import blocks_of
from tests.trainers.recipes import PAGES, SHOWN_URL, code_of, saved_as

# (page, reason) of each block that is not run.
NOT_RUN = [("nemo-rl.md", "its imports need math-verify and NeMo-RL's own cluster")]
RECIPES = ["areal.md", "nemo-rl.md", "openrlhf.md", "rllm.md", "skyrl.md", "tunix.md"]


def test_the_examples_of_the_overview_work_in_order(bots, tmp_path):
    overview = saved_as("overview", code_of("README.md").replace(SHOWN_URL, bots.url), tmp_path)
    run = bots.run("guru")
    assert (run.step, run.totals.reported, run.epoch) == (3 + 2, 3 * 32 + 2, 1)
    assert bots.run("guru", "workers").step == 1
    overview.bots.close()
    overview.selector.client.close()


def test_blocks_of_recipes_that_are_not_run_are_the_known_ones():
    pages = {page: blocks_of((PAGES / page).read_text("utf-8"), page) for page in ["README.md", *RECIPES]}
    assert [(page, block.not_run) for page, blocks in pages.items() for block in blocks if block.not_run] == NOT_RUN


def test_the_overview_leads_to_every_recipe_and_each_says_what_was_run():
    linked = set(re.findall(r"\]\(([a-z-]+\.md)\)", (PAGES / "README.md").read_text("utf-8")))
    assert linked >= set(RECIPES)
    assert all("\n## What was run\n" in (PAGES / page).read_text("utf-8") for page in RECIPES)

"""The pages of the trainers and the tutorial, as a reader runs them."""

from pathlib import Path
from typing import Any

import pytest

from bots_client.integrations.rewards import flush
from examples import trl_grpo
from tests.docs.newcomer import PAGES, copy, read
from tests.sizes import SOAK, size
from tests.trainers.recipes import SHOWN_DATASET, SHOWN_URL, code_of, saved_as

STEPS = 60  # of the tutorial, with 8 tasks each and 8 rollouts of a task
SHORT = size(6, STEPS)
TUTORIAL = "docs/tutorial.md"


def shorten(page: Path) -> None:
    """Let a page train for fewer steps, and print what then is true."""
    text = page.read_text("utf-8")
    for said in ("max_steps={0}", " {1} groups", " {2} rollouts"):
        long, short = (said.format(steps, steps * 8, steps * 64) for steps in (STEPS, SHORT))
        assert long in text
        text = text.replace(long, short)
    if SHORT != STEPS:  # what choosing gains shows after all steps only
        for hundreds in ("pass: 2...", "uniform: 1..."):
            assert hundreds in text
            text = text.replace(hundreds, f"{hundreds.split()[0]} ...")
    page.write_text(text, "utf-8")


@pytest.mark.parametrize("page", PAGES if SOAK else [TUTORIAL])
def test_a_newcomer_gets_through_a_page(page: str) -> None:
    with copy() as checkout:
        if page == TUTORIAL:
            shorten(checkout / page)
        assert read(page, checkout) > 0


def test_the_examples_of_the_overview_work_in_order(bots, tmp_path):
    overview = saved_as("overview", code_of("README.md").replace(SHOWN_URL, bots.url), tmp_path)
    run = bots.run("guru")
    assert (run.step, run.totals.reported, run.epoch) == (3 + 2, 3 * 32 + 2, 1)
    assert bots.run("guru", "workers").step == 1
    overview.bots.close()
    overview.selector.client.close()


@pytest.mark.parametrize("page", ["torch.md", "trl.md"])
def test_the_examples_of_a_page_work_in_order(page, bots, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {"__name__": "__main__"}
    code = code_of(page).replace(SHOWN_URL, bots.url).replace(SHOWN_DATASET, f'"{page.removesuffix(".md")}"')
    exec(compile(code, page, "exec"), session)
    assert flush()
    session["selector"].client.close()


def test_the_example_of_trl_trains(url, tmp_path, monkeypatch):
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path))
    trainer = trl_grpo.main(url=url, dataset="example", steps=3)
    assert trainer.state.global_step == 3
    assert trainer.state.log_history[-1]["bots/step"] == 3

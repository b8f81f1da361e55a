"""The tutorial, as a newcomer with this environment runs it: it trains with TRL.

`make newcomer` and `make soak` run it as it stands, and the README as well; else it trains for fewer steps, and the
README, which begins with the same command, is left to tests/docs/test_examples.py.
"""

from pathlib import Path

import pytest

from tests.docs.newcomer import PAGES, copy, read
from tests.sizes import SOAK, size

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
        for hundreds in ("selected: 2...", "uniform: 1..."):
            assert hundreds in text
            text = text.replace(hundreds, f"{hundreds.split()[0]} ...")
    page.write_text(text, "utf-8")


@pytest.mark.parametrize("page", PAGES if SOAK else [TUTORIAL])
def test_a_newcomer_gets_through_a_page(page: str) -> None:
    with copy() as checkout:
        if page == TUTORIAL:
            shorten(checkout / page)
        assert read(page, checkout) > 0

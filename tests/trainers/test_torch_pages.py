from pathlib import Path
from typing import Any

import pytest

from bots_client.integrations.rewards import flush
from examples import trl_grpo
from tests.docs.blocks import blocks_of

PAGES = Path(__file__).parents[2] / "docs" / "trainers"
BLOCKS = {page: blocks_of((PAGES / page).read_text("utf-8"), page) for page in ("torch.md", "trl.md", "ms-swift.md")}
NOT_RUN = [
    ("trl.md", "it stands for the trainer above"),
    ("trl.md", "AsyncGRPOTrainer needs a vLLM server"),
    ("ms-swift.md", "it needs ms-swift, which tests/trainers/test_ms_swift.py fetches where long tests are wanted"),
]
SHOWN_URL = "http://127.0.0.1:8000"


@pytest.mark.parametrize("page", ["torch.md", "trl.md"])
def test_the_examples_of_a_page_work_in_order(page, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path / "spool"))
    session: dict[str, Any] = {"__name__": "__main__"}
    dataset = page.removesuffix(".md")
    for block in BLOCKS[page]:
        if block.runs:
            code = block.code.replace(SHOWN_URL, url).replace('"guru"', f'"{dataset}"')
            exec(compile("\n" * (block.line - 1) + code, page, "exec"), session)
    assert flush()
    session["selector"].client.close()


def test_the_example_of_trl_trains(url, tmp_path, monkeypatch):
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path))
    trainer = trl_grpo.main(url=url, dataset="example", steps=3)
    assert trainer.state.global_step == 3
    assert trainer.state.log_history[-1]["bots/step"] == 3


def test_blocks_that_are_not_run_are_the_known_ones():
    assert [(page, block.not_run) for page, blocks in BLOCKS.items() for block in blocks if block.not_run] == NOT_RUN

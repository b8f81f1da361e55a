"""The code of the pages in docs/trainers, as a reader would save it: a module, with a live service behind it."""

import importlib.util
import logging
import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from bots_client import Client, Task
from tests.docs.blocks import blocks_of
from tests.trainers.standins import standing_in

PAGES = Path(__file__).parents[2] / "docs" / "trainers"
SHOWN_URL = "http://127.0.0.1:8000"
SHOWN_DATASET = '"guru"'

POOL = 12  # tasks of each recipe's dataset
BATCH = 4  # tasks of a training step, as the pages have it
ROLLOUTS = 2  # of each task
SHOWN_ROLLOUTS = "ROLLOUTS = 8"


def code_of(page: str) -> str:
    """Return all python of a page that is run, each line where it stands there."""
    lines: list[str] = []
    for block in blocks_of((PAGES / page).read_text("utf-8"), page):
        if block.runs and block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return "\n".join(lines) + "\n"


@contextmanager
def recipe(
    page: str, bots: Client, folder: Path, *, trainer: Path | None = None, without: str = "", name: str = ""
) -> Iterator[ModuleType]:
    """Save a page's code as a module beside its trainer, with a dataset of its own, and import it; then forget both.

    Args:
        page: its file's name.
        bots: a client of the service that is to be behind it.
        folder: where to save it.
        trainer: the folder with the trainer's package.
        without: the packages that something stands in for.
        name: the module's; default: after the page.
    """
    dataset = page.removesuffix(".md")
    create_pool(bots, dataset)
    name = name or f"recipe_{dataset.replace('-', '_')}"
    start_method = multiprocessing.get_start_method()
    loggers = logging.Logger.manager, logging.Logger.root
    with standing_in(*without.split(), for_=trainer or folder):
        try:
            yield saved_as(
                name,
                code_of(page).replace(SHOWN_DATASET, f'"{dataset}"').replace(SHOWN_ROLLOUTS, f"ROLLOUTS = {ROLLOUTS}"),
                folder,
            )
        finally:
            sys.modules.pop(name, None)
            multiprocessing.set_start_method(start_method, force=True)  # SkyRL sets one for the whole process
            logging.Logger.manager, logging.Logger.root = loggers  # so does AReaL


def saved_as(name: str, code: str, folder: Path) -> ModuleType:
    """Save code under a module's name and import it."""
    file = folder / f"{name}.py"
    file.write_text(code, "utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def task_ids() -> list[str]:
    """Return the ids of the tasks that `create_pool` makes."""
    return [f"t{number}" for number in range(POOL)]


def create_pool(bots: Client, dataset: str) -> None:
    """Create a dataset of POOL tasks."""
    bots.create_dataset(dataset, [Task(task) for task in task_ids()])


def reward_of(task: str) -> float:
    """Stand for a rollout: odd tasks are solved."""
    return float(int(task[1:]) % 2)

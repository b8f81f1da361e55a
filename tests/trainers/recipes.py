"""What the tests of trainers share: the recipes as modules, the packages, and pools of a live service."""

import importlib.util
import json
import logging
import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from bots_client import Client, Task
from tests.docs.blocks import blocks_of
from tests.trainers.standins import standing_in

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "trainers"
FILES = ROOT / "examples" / "trainers"
PACKAGES = ROOT / "build" / "trainers"
SHOWN_URL = "http://127.0.0.1:8765"  # where the pages say that the service is
FORGETTING = 0.1  # a run's, unless set
SHOWN_DATASET = '"guru"'

POOL = 12  # tasks of each recipe's dataset
BATCH = 4  # tasks of a training step, as the pages have it
ROLLOUTS = 2  # of each task
SHOWN_ROLLOUTS = "ROLLOUTS = 8"


def code_of(page: str) -> str:
    """Return the code of a page, or of a file among the examples."""
    if page.endswith(".py"):
        return (FILES / page).read_text("utf-8")
    lines: list[str] = []
    for block in blocks_of((PAGES / page).read_text("utf-8"), page):
        if block.runs and block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return "\n".join(lines) + "\n"


@contextmanager
def recipe(
    page: str, bots: Client, folder: Path, *, trainer: Path | None = None, without: str = "", name: str = ""
) -> Iterator[ModuleType]:
    """Save the code of a page or an example in a folder, with a dataset of its own, and import it; then forget both.

    trainer: the folder with the trainer's package; without: the packages that something stands in for; name: the
    module's, by default after the page.
    """
    dataset = Path(page).stem
    bots.create_dataset(dataset, map(Task, task_ids()))
    name = name or f"recipe_{dataset}"
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
    return [f"t{number}" for number in range(POOL)]


def reward_of(task: str) -> float:
    """Stand for a rollout: odd tasks are solved."""
    return float(int(task[1:]) % 2)


def create_pool(bots: Client, name: str, ids: Sequence[str], *, first: Sequence[str] = ()) -> None:
    """Create a dataset of tasks without references; with `first`, its run selects those first and in this order."""
    rates = {task: (len(first) - place) / (len(first) + 1) for place, task in enumerate(first)}
    bots.create_dataset(name, [Task(task, [rates.get(task, 0.0)]) for task in ids], reference_models=["m"])
    strategy = "easy_to_hard" if first else "thompson"
    bots.create_run(name, "default", belief="bots", implicit_weight=0, strategy=strategy)


def evidence_of(bots: Client, dataset: str, ids: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the successes and failures that a run of BOTS believes in, less its prior; not of tasks that have none."""
    found: dict[str, tuple[float, float]] = {}
    for belief in bots.tasks(dataset, ids=ids):
        assert belief.alpha is not None
        assert belief.beta is not None
        found[belief.id] = (belief.alpha - 1, belief.beta - 1)
    return {task: counts for task, counts in found.items() if any(counts)}


def blocks(page: str, language: str) -> list[str]:
    text = (PAGES / page).read_text("utf-8")
    return [block.code for block in blocks_of(text, page) if block.language == language and block.not_run is None]


def write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def folder_of(*requirements: str, python: str | None = None) -> Path:
    """Return the folder of packages such as "verl==0.9.1", fetched the first time; it is named after the first.

    A wheel is small; what it depends on is not, and two versions of one trainer cannot share an environment.

    python: version to fetch them for, such as "3.12", if they ask for a newer one than this and run on it all the same.
    """
    folder = PACKAGES / requirements[0]
    done, asked = folder / ".done", "\n".join(requirements)
    if not done.exists() or done.read_text() != asked:
        newer = ["--python-version", python, "--only-binary", ":all:"] if python else []
        what = ["install", "--quiet", "--no-deps", *newer, "--target", str(folder), *requirements]
        # Where uv can't, or is not there, pip installs, as in the Makefile; uv takes a fifth of its processor time.
        if subprocess.run([sys.executable, "-m", "uv", "pip", *what], check=False).returncode != 0:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
            subprocess.run([*pip, *what, "--no-compile", "--upgrade"], check=True)
        shutil.rmtree(folder / "tests", ignore_errors=True)  # some wheels bring theirs, which would hide ours
        done.write_text(asked)
    return folder

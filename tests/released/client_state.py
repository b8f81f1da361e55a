"""What a training job keeps on its own disk: the state in the trainer's checkpoint, and reports that wait."""

import base64
from pathlib import Path
from typing import Any

from bots_client import ResilientClient, Selector, Task
from tests.serving import running_service

IDS = [f"t{number}" for number in range(12)]
STEPS = 2
CHECKPOINT: dict[str, Any] = {"step": STEPS, "checkpoint": "after-two-steps"}


def connect(url: str, spool: Path) -> ResilientClient:
    """Return a client that keeps its reports in a folder, and soon gives up."""
    return ResilientClient(url, spool=spool, report_deadline_s=1)


def train(client: ResilientClient, steps: int) -> Selector:
    """Train some steps, and return what did."""
    selector = Selector(client, "pool", ids=IDS)
    for _ in range(steps):
        observe(selector)
        selector.step()
    return selector


def observe(selector: Selector) -> list[str]:
    """Select three tasks, observe two rollouts of each, and return them."""
    tasks = list(selector.next(3).ids)
    for task in tasks:
        selector.observe(task, [0, 1])
    return tasks


def leave(scratch: Path) -> dict[str, Any]:
    """Train, save a checkpoint, and lose the service before the next report; a backup of it is left, too."""
    with running_service(scratch) as service:
        client = connect(service.url, scratch / "spool")
        client.direct.create_dataset("pool", [Task(task) for task in IDS])
        selector = train(client, STEPS)
        state = selector.state_dict(**CHECKPOINT)
        waiting = observe(selector)
        backup = b"".join(client.direct.export_dataset("pool"))
    selector.step()
    (file,) = (scratch / "spool").glob("*.db")
    texts = {"spool": base64.b64encode(file.read_bytes()).decode(), "backup": base64.b64encode(backup).decode()}
    return {"url": service.url, "state": state, "waiting": waiting, "file": file.name, **texts}

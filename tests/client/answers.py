"""What the service answers: an answer of each kind, which the API's document is asked about."""

import json
import re
from pathlib import Path
from typing import Any

ANSWERS = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))


def example(method: str, target: str) -> Any:
    """Return an example of an answer; None if it has no body."""
    asked = f"{method} {target.partition('?')[0]}"
    found = [route for route in ANSWERS if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), asked)]
    return ANSWERS[min(found, key=lambda route: route.count("{"))] if found else None


RUN_PATH = "/datasets/guru/runs/r1"
DATASET = example("GET", "/datasets/guru")
RUN = example("GET", RUN_PATH)
SELECTION = example("POST", "/select")
RECEIPT = example("POST", "/report")
VERSION = example("GET", "/version")
NEW_API_KEY = example("POST", "/keys")
[BELIEF] = example("GET", f"{RUN_PATH}/tasks")["tasks"][:1]
[HISTORY_STEP] = example("GET", f"{RUN_PATH}/history")["history"][:1]
[JOURNAL_ENTRY] = example("GET", f"{RUN_PATH}/journal")["entries"][:1]


def page(name: str, *items: Any, cursor: str | None = None) -> dict[str, Any]:
    return {name: list(items), "next_cursor": cursor}

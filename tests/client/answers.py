"""What the service answers: the examples of the API's document, which the service's own tests keep true."""

import json
import re
from pathlib import Path
from typing import Any

PATHS = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text("utf-8"))["paths"]


def example(method: str, target: str) -> Any:
    """Return the document's example of an answer; None if it has no body."""
    found = [path for path in PATHS if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), target.partition("?")[0])]
    operation = PATHS[min(found, key=lambda path: path.count("{"))][method.lower()]
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    return answers[-1]["content"]["application/json"]["example"] if "content" in answers[-1] else None


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

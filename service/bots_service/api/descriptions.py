"""Descriptions of properties in the OpenAPI document, from each body's docstring or a common list."""

import inspect
import re
from typing import Any

from bots_service.core.run_settings import RunSettings

# A docstring's line that describes properties: "name: text", or "name, other: text".
_NAMED = re.compile(r"(?P<names>\w+(?:, \w+)*): (?P<text>.+)")

COMMON = {
    "capability": (
        "The estimate of where the model stands along the reference models; null without references and with the belief"
        " `tracker`."
    ),
    "closed": "Whether the report closed a step.",
    "created_at": "When it was created (RFC 3339, UTC).",
    "dataset": "The dataset's name.",
    "distinct": "How many different tasks were reported.",
    "distinct_tasks": "How many different tasks had been reported by then.",
    "effective": "How many tasks had a group of rollouts with a gradient.",
    "effective_task_ratio": "effective / reported; null if nothing was reported.",
    "epoch": "How many times the run had been rewound.",
    "expired": "How many outcomes were too old to count.",
    "id": "The id.",
    "all_solved": "How many tasks had no failed rollout.",
    "none_solved": "How many tasks had no successful rollout.",
    "brier": "Mean squared error of the success rates predicted before the step; null without rollouts.",
    "log_loss": "Mean log loss of the success rates predicted before the step; null without rollouts.",
    "late": "How many outcomes came late and entered with less weight.",
    "mean": "The expected success probability.",
    "name": "The name.",
    "new_tasks": "How many of the reported tasks had never been reported before.",
    "next_cursor": "Pass it as `cursor` to get the next page; null on the last page.",
    "reported": "How many tasks were reported.",
    "retired": "How many tasks are retired.",
    "rollouts": "How many rollouts were reported.",
    "run": "The run's name.",
    "seq": "The number of the last journal entry.",
    "step": "The number of steps that have closed.",
    "successes": "How many rollouts succeeded.",
    "success_rate": "The share of the rollouts that succeeded; null without rollouts.",
    "tags": "The tags that the task carries.",
    "tasks": "How many tasks can be selected.",
    "time": "When it was recorded (RFC 3339, UTC).",
}


def described(docstring: str, names: set[str]) -> tuple[str, dict[str, str]]:
    """Split a docstring into the general text and the texts about properties.

    Args:
        docstring: of a body; a line such as "late: number of late outcomes." begins the text about `late`, which ends
            at the next line of this kind or at a blank one.
        names: of the properties.
    """
    whole: list[str] = []
    texts: dict[str, str] = {}
    about: list[str] = []
    for line in docstring.splitlines():
        found = _NAMED.fullmatch(line)
        if found and set(found["names"].split(", ")) <= names:
            about = found["names"].split(", ")
            texts |= dict.fromkeys(about, found["text"])
        elif about and line.strip():
            texts |= {name: f"{texts[name]} {line.strip()}" for name in about}
        else:
            about = []
            whole.append(line)
    return re.sub(r"\n{2,}", "\n\n", "\n".join(whole)).strip(), {name: sentence(text) for name, text in texts.items()}


def sentence(text: str) -> str:
    """Return the text with a full stop, and a capital letter unless it begins with a symbol such as "p*"."""
    return (text[0].upper() + text[1:] if re.match("[a-z]+ ", text) else text).rstrip(".") + "."


_, _SETTINGS = described(inspect.cleandoc(RunSettings.__doc__ or ""), set(RunSettings.__dataclass_fields__))
SETTINGS = {name: text.replace("None", "null") for name, text in _SETTINGS.items()}


def describe(schema: dict[str, Any], parent: str) -> None:
    """Add descriptions to a body's schema and its properties.

    A property that the docstring does not describe gets the text of the parent's docstring, of the common list, or of
    the run's settings.
    """
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    whole, own = described(inspect.cleandoc(schema.get("description", "")), set(properties))
    if whole:
        schema["description"] = whole
    _, inherited = described(parent, set(properties))
    settings = SETTINGS if "forgetting" in properties else {}
    for name, found in properties.items():
        text = (COMMON | settings | inherited | own).get(name)
        if text is not None:
            found["description"] = text

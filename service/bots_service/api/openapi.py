"""The OpenAPI document: paths and parameters from FastAPI, bodies from msgspec.

A body's properties are described by its docstring or a common list.
"""

import inspect
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.openapi.utils import get_openapi

from bots_service import __version__
from bots_service.api.problems import MEDIA_TYPE, Problem
from bots_service.api.requests import JSON, KEY_HEADER, KEY_PATTERN, NDJSON
from bots_service.api.routing import READS, GuardedRoute
from bots_service.core.run_settings import RunSettings

REFERENCE = "#/components/schemas/{name}"
KEY = {
    "name": KEY_HEADER,
    "in": "header",
    "required": False,
    "description": "Makes the write happen once: the same key and request get the first answer again.",
    "schema": {"type": "string", "pattern": KEY_PATTERN},
}
PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="Problem")}}}}
REFUSALS = {
    "4XX": {"description": "The request is refused, and changed nothing; `type` says why.", **PROBLEM},
    "5XX": {
        "description": "503: not now, try again after `Retry-After` seconds. Others: the service failed.",
        **PROBLEM,
    },
}

# A docstring's line that describes properties: "name: text", or "name, other: text".
_NAMED = re.compile(r"(?P<names>\w+(?:, \w+)*): (?P<text>.+)")

DESCRIPTIONS = {
    "capability": (
        "The estimate of where the model stands along the reference models; null without references and with the belief"
        " `tracker`."
    ),
    "created_at": "When it was created (RFC 3339, UTC).",
    "dataset": "The dataset's name.",
    "datasets": "The datasets.",
    "distinct_tasks": "How many different tasks had been reported by then.",
    "effective": "How many tasks had a group of rollouts with a gradient.",
    "effective_task_ratio": "effective / reported; null if nothing was reported.",
    "entries": "The entries.",
    "epoch": "How many times the run had been rewound.",
    "expired": "How many outcomes were too old to count.",
    "history": "The steps.",
    "keys": "The keys.",
    "points": "The points.",
    "runs": "The runs.",
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


def _described(docstring: str, names: set[str]) -> tuple[str, dict[str, str]]:
    """Split a body's docstring into the general text and the texts about the properties of these names.

    A line such as "late: number of late outcomes." begins one, which ends at the next such line or a blank one.
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
    return re.sub(r"\n{2,}", "\n\n", "\n".join(whole)).strip(), {name: _sentence(text) for name, text in texts.items()}


def _sentence(text: str) -> str:
    """Return the text with a full stop, and a capital letter unless it begins with a symbol such as "p*"."""
    return (text[0].upper() + text[1:] if re.match("[a-z]+ ", text) else text).rstrip(".") + "."


_, _SETTINGS = _described(inspect.cleandoc(RunSettings.__doc__ or ""), set(RunSettings.__struct_fields__))
SETTINGS = {name: text.replace("None", "null") for name, text in _SETTINGS.items()}


def _describe(schema: dict[str, Any], parent: str) -> None:
    """Add descriptions to a body's schema and its properties.

    A property that the docstring does not describe gets the text of the parent's docstring, of the common list, or of
    the run's settings.
    """
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    whole, own = _described(inspect.cleandoc(schema.get("description", "")), set(properties))
    if whole:
        schema["description"] = whole
    _, inherited = _described(parent, set(properties))
    settings = SETTINGS if "forgetting" in properties else {}
    for name, found in properties.items():
        text = (DESCRIPTIONS | settings | inherited | own).get(name)
        if text is not None:
            found["description"] = text


def _content_of(body: type | None, files: Sequence[str]) -> dict[str, Any]:
    content = {JSON: {"schema": {"$ref": REFERENCE.format(name=body.__name__)}}} if body else {}
    content |= {media: {"schema": {"type": "string", "format": "binary"}} for media in files}
    return {"content": content} if content else {}


def document(routes: Sequence[GuardedRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of an application with these routes."""
    about = "BOTS picks the RL tasks your model can learn from right now."
    made = get_openapi(title="BOTS selector", version=__version__, description=about, routes=routes)
    shown = [route for route in routes if route.include_in_schema]
    bodies = {body for route in shown for body in (route.declared.reads, route.declared.answers) if body is not None}
    _, found = msgspec.json.schema_components([Problem, *bodies], ref_template=REFERENCE)
    # Other languages write the end of a pattern as a dollar sign.
    components = msgspec.json.decode(msgspec.json.encode(found).replace(rb'\\Z"', b'$"'))
    parents = {body.__name__: inspect.getdoc(body.__base__) or "" for body in bodies}
    for name, schema in components.items():
        _describe(schema, parents.get(name, ""))

    made.setdefault("components", {})["schemas"] = dict(sorted(components.items()))
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for route in shown:
        for method in route.methods:
            operation, declared = made["paths"][route.path_format][method.lower()], route.declared
            if asked := _content_of(declared.reads, [NDJSON] * declared.lines):
                operation["requestBody"] = {"required": True, **asked}
            if method not in READS:
                operation.setdefault("parameters", []).append(KEY)
            if route.scopes is not None:
                operation["security"] = [{"key": sorted(map(str, route.scopes))}]
            answered = _content_of(declared.answers, declared.answers_media)
            statuses = declared.statuses or (200 if answered else 204,)
            responses = {str(each): {"description": HTTPStatus(each).phrase, **answered} for each in statuses}
            operation["responses"] = responses | REFUSALS
    return made

"""The OpenAPI document: FastAPI knows paths and parameters, msgspec the bodies."""

import inspect
from collections.abc import Iterable
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from bots_service.api import (
    answers,
    backup_bodies,
    curve_answers,
    journal_answers,
    key_bodies,
    lease_answers,
    requests,
    training_answers,
)
from bots_service.api.parameters import KEYED
from bots_service.api.problems import Problem, documented
from bots_service.api.security import GuardedRoute
from bots_service.api.task_formats import text as json_file
from bots_service.api.task_formats.text import TaskRequest
from bots_service.errors import ForbiddenError, RateLimitedError, UnauthenticatedError

REFERENCE = "#/components/schemas/{name}"
BODIES: tuple[type, ...] = (
    Problem,
    TaskRequest,
    json_file.DatasetRequest,
    json_file.AppendRequest,
    requests.SelectRequest,
    requests.ReportRequest,
    requests.SettingsRequest,
    requests.RunRequest,
    requests.RewindRequest,
    requests.RetireRequest,
    answers.Dataset,
    answers.Datasets,
    answers.Appended,
    answers.Retired,
    answers.Run,
    answers.Runs,
    answers.History,
    curve_answers.Curve,
    curve_answers.Calibration,
    curve_answers.Outlooks,
    journal_answers.JournalPage,
    lease_answers.Leases,
    answers.Snapshot,
    answers.Snapshots,
    backup_bodies.ImportAnswer,
    backup_bodies.PruneRequest,
    backup_bodies.PruneAnswer,
    key_bodies.KeyRequest,
    key_bodies.NewApiKey,
    key_bodies.ApiKeys,
    key_bodies.WhoAmI,
    answers.Alive,
    answers.Readiness,
    answers.Version,
    training_answers.SelectAnswer,
    training_answers.ReportAnswer,
    training_answers.Tasks,
)


def reference(kind: type) -> dict[str, Any]:
    """Return a schema that points to the body's."""
    return {"$ref": REFERENCE.format(name=kind.__name__)}


Media = dict[str, dict[str, Any]]  # media type -> schema


def reads(kind: type, other_media: Media | None = None) -> dict[str, Any]:
    """Return what a write with a JSON body adds to its description.

    Args:
        kind: the body.
        other_media: what else it reads.
    """
    return {**KEYED, "requestBody": {"required": True, "content": _content(kind, other_media)}}


def answers_with(
    kind: type, meanings: dict[int, str] | None = None, other_media: Media | None = None
) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI responses with this body.

    Args:
        kind: the body.
        meanings: statuses -> what each means; None for 200 alone.
        other_media: what else it can answer with.
    """
    content = _content(kind, other_media)
    meanings = meanings or {200: (kind.__doc__ or "").splitlines()[0]}
    return {status: {"description": meaning, "content": content} for status, meaning in meanings.items()}


def _content(kind: type, other_media: Media | None) -> dict[str, Any]:
    schemas = {"application/json": reference(kind), **(other_media or {})}
    return {media_type: {"schema": schema} for media_type, schema in schemas.items()}


def end_patterns(schema: Any) -> None:
    """Write the end of patterns as everybody but Python does, by a dollar sign."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            schema["pattern"] = schema["pattern"].replace(r"\Z", "$")
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            end_patterns(part)


def document(app: FastAPI, routes: Iterable[GuardedRoute]) -> dict[str, Any]:
    """Return the application's OpenAPI document.

    Args:
        app: the application.
        routes: all of its routes.
    """
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    _, components = msgspec.json.schema_components(BODIES, ref_template=REFERENCE)
    for schema in components.values():
        # Before Python 3.13 a docstring has its indentation; the document must be the same from any.
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
        end_patterns(schema)
    made.setdefault("components", {})["schemas"] = dict(sorted(components.items()))
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    refusals = documented(UnauthenticatedError, ForbiddenError, RateLimitedError)
    for route in routes:
        if route.include_in_schema and route.guard.scopes is not None:
            for method in route.methods or ():
                operation = made["paths"][route.path][method.lower()]
                operation["security"] = [{"key": sorted(map(str, route.guard.scopes))}]
                operation["responses"] |= {str(status): said for status, said in refusals.items()}
    return made

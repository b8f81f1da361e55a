"""The OpenAPI document: paths and parameters from FastAPI, bodies from msgspec."""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from fastapi.openapi.utils import get_openapi
from msgspec import Struct, structs

from bots_service.api.descriptions import describe
from bots_service.api.parameters import KEYED
from bots_service.api.problems import Problem, documented
from bots_service.api.security import GuardedRoute
from bots_service.errors import BotsError, ForbiddenError, UnauthenticatedError

REFERENCE = "#/components/schemas/{name}"


class SchemaReference(dict[str, str]):
    """A reference to a body's schema; the document contains all schemas that its routes refer to."""

    def __init__(self, body: type) -> None:
        """Create a reference to the schema of a body."""
        super().__init__({"$ref": REFERENCE.format(name=body.__name__)})
        self.body = body


Media = dict[str, dict[str, Any]]  # media type -> its description, with a schema
BINARY = {"schema": {"type": "string", "format": "binary"}}


def reads(example: Struct, other_media: Media | None = None) -> dict[str, Any]:
    """Return the OpenAPI description of a JSON request body.

    Args:
        example: an example of the body; its class is the schema.
        other_media: other media types that the route reads.
    """
    return {**KEYED, "requestBody": {"required": True, "content": _content(example, _sent(example), other_media)}}


def answers_with(
    example: Any,
    *refusals: type[BotsError],
    meanings: dict[int, str] | None = None,
    other_media: Media | None = None,
) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI responses with this body, and those of errors.

    Args:
        example: an example of the body, a struct or a dataclass; its class is the schema.
        refusals: the errors.
        meanings: status -> description; None: only 200.
        other_media: other media types that the route returns.
    """
    content = _content(example, as_json(example), other_media)
    meanings = meanings or {200: (type(example).__doc__ or "").splitlines()[0]}
    found = {status: {"description": meaning, "content": content} for status, meaning in meanings.items()}
    return found | documented(*refusals)


def _content(body: Any, example: Any, other_media: Media | None) -> dict[str, Any]:
    return {"application/json": {"schema": SchemaReference(type(body)), "example": example}, **(other_media or {})}


def as_json(body: Any) -> dict[str, Any]:
    """Return a body as JSON types: lists for tuples, strings for times."""
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    return values


def _sent(body: Struct) -> dict[str, Any]:
    """Return a request's body without fields that have their default, as a caller would write it."""
    defaults = {field.name: field.default for field in structs.fields(body)}
    return {name: value for name, value in as_json(body).items() if value and getattr(body, name) != defaults[name]}


def bodies_in(description: Any) -> Iterator[type]:
    """Yield the bodies to which a part of a route's description refers."""
    if isinstance(description, SchemaReference):
        yield description.body
    elif isinstance(description, dict):
        for part in description.values():
            yield from bodies_in(part)


def end_patterns(schema: Any) -> None:
    """Replace Python's end of a pattern by the dollar sign that other languages use."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            schema["pattern"] = schema["pattern"].replace(r"\Z", "$")
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            end_patterns(part)


def document(title: str, version: str, description: str, routes: Sequence[GuardedRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of an application.

    Args:
        title: of the application.
        version: its version.
        description: what it does.
        routes: all of its routes.
    """
    made = get_openapi(title=title, version=version, description=description, routes=routes)
    shown = [route for route in routes if route.include_in_schema]
    bodies = {body for route in shown for body in bodies_in({**route.responses, **(route.openapi_extra or {})})}
    _, components = msgspec.json.schema_components([Problem, *bodies], ref_template=REFERENCE)
    parents = {body.__name__: inspect.getdoc(body.__base__) or "" for body in bodies}
    for name, schema in components.items():
        describe(schema, parents.get(name, ""))
        end_patterns(schema)
    made.setdefault("components", {})["schemas"] = dict(sorted(components.items()))
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    refusals = documented(UnauthenticatedError, ForbiddenError)
    for route in shown:
        for method in route.methods:
            operation = made["paths"][route.path_format][method.lower()]
            for status, answer in route.responses.items():
                operation["responses"][str(status)] |= answer  # FastAPI's copy drops nulls in examples
            if route.guard.scopes is not None:
                operation["security"] = [{"key": sorted(map(str, route.guard.scopes))}]
                operation["responses"] |= {str(status): said for status, said in refusals.items()}
    return made

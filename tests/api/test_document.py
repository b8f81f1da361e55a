"""The OpenAPI document explains itself: summaries, descriptions, and examples that fit their schemas."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bots_service.settings import Settings
from bots_service.wiring import build_app

DOCUMENT = build_app(Settings.model_construct()).openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {operation["operationId"]: operation for path in DOCUMENT["paths"].values() for operation in path.values()}


def json_bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each JSON body of a request and of an answer that is no problem, with its place."""
    for name, operation in OPERATIONS.items():
        contents = {"request": operation.get("requestBody", {}).get("content", {})}
        contents |= {status: answer.get("content", {}) for status, answer in operation["responses"].items()}
        for place, content in contents.items():
            if "application/json" in content:
                yield f"{name} {place}", content["application/json"]


BODIES = dict(json_bodies())


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_property_has_a_description(name: str):
    properties = SCHEMAS[name].get("properties", {})
    assert [key for key, schema in properties.items() if not schema.get("description", "").endswith(".")] == []


@pytest.mark.parametrize("place", BODIES)
def test_each_json_body_has_an_example_that_its_schema_accepts(place: str):
    body = BODIES[place]
    schema = {**body["schema"], "components": DOCUMENT["components"]}
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(body["example"])]
    assert errors == []


def test_every_route_that_answers_with_text_shows_an_example():
    missing = []
    for name, operation in OPERATIONS.items():
        for answer in operation["responses"].values():
            for media_type, content in answer.get("content", {}).items():
                if media_type.startswith("text/") and not content.get("example"):
                    missing.append((name, media_type))
    assert missing == []

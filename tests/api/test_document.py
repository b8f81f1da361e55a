"""The OpenAPI document explains itself: summaries, descriptions, and examples that fit their schemas."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bots_service.api.descriptions import described
from bots_service.settings import Settings
from bots_service.wiring import build_app

DOCUMENT = build_app(Settings.model_construct()).openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {operation["operationId"]: operation for path in DOCUMENT["paths"].values() for operation in path.values()}
VERBS = {
    "Append", "Change", "Check", "Compare", "Create", "Decide", "Delete", "Export", "Forget", "Get", "Import", "List",
    "Remove", "Report", "Restore", "Retire", "Revoke", "Rewind", "Select", "Show", "Store", "Summarize",
}  # fmt: skip


def json_bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each JSON body of a request and of an answer that is no problem, with its place."""
    for name, operation in OPERATIONS.items():
        contents = {"request": operation.get("requestBody", {}).get("content", {})}
        contents |= {status: answer.get("content", {}) for status, answer in operation["responses"].items()}
        for place, content in contents.items():
            if "application/json" in content:
                yield f"{name} {place}", content["application/json"]


BODIES = dict(json_bodies())


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_summary_is_a_verb_with_its_object(name: str):
    summary = OPERATIONS[name]["summary"]
    verb, _, thing = summary.partition(" ")
    assert verb in VERBS
    assert re.fullmatch(r"[A-Za-z' ]+", thing)


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


def test_a_docstring_names_properties_line_by_line():
    whole, texts = described(
        "A step.\n\nlate, expired: outcomes that\n    did not count.\nbrier: the error.\n\nnote: more.",
        {"late", "expired", "brier"},
    )
    assert whole == "A step.\n\nnote: more."
    assert texts == {
        "late": "Outcomes that did not count.",
        "expired": "Outcomes that did not count.",
        "brier": "The error.",
    }

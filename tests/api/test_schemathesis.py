"""Whatever the OpenAPI document allows or forbids: no failure, and nothing that the document does not tell of."""

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from bots_service.settings import Settings
from bots_service.wiring import build_app
from tests.api.pools import MODELS, OPERATOR, bearer, solved, tasks
from tests.serving import NO_AUTHORITIES, ServiceProcess, running_service
from tests.sizes import examples

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
DOCUMENT = schemathesis.openapi.from_dict(build_app(Settings.model_validate({})).openapi())
OPERATIONS = {found.ok().label: found.ok() for found in DOCUMENT.get_all_operations() if isinstance(found, Ok)}


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context: Any, value: Any) -> bytes:
    """Send lines as they were drawn: the document knows them as text."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


AIMED = {"dataset": "guru", "run": "default", "name": "probe", "key_id": "0" * 16}
LONGEST_URL = 65_000  # beyond 64 KiB the HTTP parser itself refuses, in plain text, before any of our code runs
EXAMPLES = int(os.environ.get("TEST_FUZZ_EXAMPLES", examples(12)))


def parameter_names(label: str, where: str) -> set[str]:
    """Return the operation's parameters in the path, the query or the headers."""
    declared = OPERATIONS[label].definition.raw.get("parameters", [])
    return {parameter["name"] for parameter in declared if parameter["in"] == where}


def variants() -> Iterator[Any]:
    """Yield each operation with proper and with improper input; also at addresses that exist."""
    for label, operation in OPERATIONS.items():
        takes_input = "requestBody" in operation.definition.raw or parameter_names(label, "query")
        path = parameter_names(label, "path")
        for mode in GenerationMode:
            if takes_input or path or mode is GenerationMode.POSITIVE:
                yield pytest.param(label, mode, None, id=f"{label} {mode.name}")
            if path and (takes_input or mode is GenerationMode.POSITIVE):
                aim = {name: AIMED[name] for name in path}
                yield pytest.param(label, mode, aim, id=f"{label} {mode.name} aimed")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("fuzzed"), max_upload_bytes="1000000", admin_key=OPERATOR) as running:
        yield running


@pytest.fixture
def aim(service: ServiceProcess) -> None:
    """Make sure that datasets exist which the examples can hit, and that one run has some history."""
    with httpx.Client(base_url=service.url, headers=bearer(OPERATOR), verify=NO_AUTHORITIES) as http:
        for name in ("guru", "0"):
            http.put(f"/datasets/{name}", json={"reference_models": MODELS, "tasks": tasks(20)})
        http.post("/report", json={"dataset": "guru", "outcomes": [solved(1)]}).raise_for_status()


@pytest.mark.parametrize(("label", "mode", "address"), list(variants()))
def test_every_answer_is_as_documented(
    service: ServiceProcess, aim: None, label: str, mode: GenerationMode, address: dict[str, str] | None
) -> None:
    strategy = OPERATIONS[label].as_strategy(generation_mode=mode, path_parameters=address)

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=strategy)
    def answers(case: Any) -> None:
        answer = case.call(base_url=service.url, headers=bearer(OPERATOR))
        if len(answer.request.url) < LONGEST_URL:
            case.validate_response(answer, checks=CHECKS)

    answers()

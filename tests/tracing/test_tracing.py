"""What a collector is told of requests, and what it costs them when it is not there."""

import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bots_service.settings import Settings
from tests.api.conftest import serving
from tests.api.keyed import OPERATOR, guarded, new_key
from tests.api.pools import RUN, make_dataset, report, require_problem, select, solved
from tests.servers import RedisServer
from tests.serving import free_port
from tests.tracing.collector import Collector, collecting

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def traceparent(*, sampled: bool = True) -> dict[str, str]:
    """The header by which a caller's trace is continued."""
    return {"traceparent": f"00-{TRACE}-{CALLER}-{sampled:02x}"}


async def test_a_report_is_a_tree_in_its_callers_trace(collector: Collector, tmp_path: Path):
    async with serving(tmp_path, otlp_endpoint=collector.url) as http:
        await make_dataset(http)
        await report(http, solved(3))  # opens the run, which takes reads of its own
        outcomes = [solved(1), solved(2)]
        answer = await http.post("/report", json={"dataset": "guru", "outcomes": outcomes}, headers=traceparent())
    mine = [span for span in collector.spans if span.trace == TRACE]
    (request,) = [span for span in mine if span.parent == CALLER]
    assert (request.name, request.is_server, request.is_error) == ("POST /report", True, False)
    below = collector.below(request)
    assert below == {"turn": {}, "append": {}, "catch up": {"fold": {}, "publish": {}}, "release": {}}
    assert all(request.began <= span.began <= span.ended <= request.ended for span in mine)
    (append,) = [span for span in mine if span.name == "append"]
    assert append.facts == {"bots.count": len(outcomes), "bots.seq": answer.json()["seq"]}
    assert request.facts == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/report",
        "bots.request_id": answer.headers["x-request-id"],
        "bots.dataset": "guru",
        "bots.run": "default",
    }
    assert request.of["service.name"] == "bots"


async def test_without_a_caller_each_request_begins_a_trace(collector: Collector, tmp_path: Path):
    async with serving(tmp_path, otlp_endpoint=collector.url) as http:
        await make_dataset(http)
        await select(http, 2)
        await http.get(RUN, headers={"traceparent": "00-nonsense"})
    names = {span.name: span for span in collector.requests()}
    assert names.keys() == {"PUT /datasets/{dataset}", "POST /select", "GET /datasets/{dataset}/runs/{run}"}
    assert len({span.trace for span in names.values()}) == 3
    assert {span.parent for span in names.values()} == {""}
    assert {"draw", "lease"} <= collector.below(names["POST /select"]).keys()
    assert "sql write" in collector.below(names["PUT /datasets/{dataset}"])


async def test_calls_of_redis_stand_where_they_are_made(
    collector: Collector, tmp_path: Path, redis_server: RedisServer
):
    async with serving(tmp_path, otlp_endpoint=collector.url, redis_url=redis_server.url, redis_timeout_s=20) as http:
        await make_dataset(http)
        await report(http, solved(1))
        await select(http, 2)
    asking = {span.name: collector.below(span) for span in collector.spans if span.name in ("publish", "lease")}
    assert asking == {"publish": {"redis": {}}, "lease": {"redis": {}}}
    scripts = {span.facts["bots.script"] for span in collector.spans if span.name == "redis"}
    assert {"publish", "acquire"} <= scripts


async def test_no_key_no_task_and_no_body_is_told(collector: Collector, tmp_path: Path):
    async with guarded(tmp_path, otlp_endpoint=collector.url) as http:
        await make_dataset(http)
        key = (await new_key(http, "select", "report"))["key"]
        http.headers["Authorization"] = f"Bearer {key}"
        await select(http, 3)
        idempotency = {"Idempotency-Key": "only-once"}
        news = {"dataset": "guru", "outcomes": [solved(1)]}
        await http.post("/report", json=news, headers=idempotency)
        wrong = await http.post("/report", json={"dataset": "guru", "outcomes": [solved(2, successes=9, trials=8)]})
        require_problem(wrong, 422, "invalid-outcomes")
        for path in (f"/datasets/{key}", f"/datasets/{OPERATOR}/runs/{key}"):
            await http.get(path, headers={"Authorization": f"Bearer {OPERATOR}"})
        await http.post("/select", json={"dataset": key, "run": key, "count": 1})
    sent = b"".join(collector.bodies)
    assert b"POST /report" in sent
    secrets = [key, key[-64:], OPERATOR, "only-once", "task-", "successes", "9 of 8"]
    assert [secret for secret in secrets if secret.encode() in sent] == []


@pytest.mark.parametrize(("share", "sampled"), [(0, True), (1, False)])
async def test_the_caller_decides_whether_its_trace_is_sent(
    collector: Collector, tmp_path: Path, share: float, sampled: bool
):
    async with serving(tmp_path, otlp_endpoint=collector.url, trace_share=share) as http:
        await make_dataset(http)
        await http.get(RUN, headers=traceparent(sampled=sampled))
    assert {span.trace == TRACE for span in collector.spans} == {sampled}


async def test_of_a_share_of_none_nothing_is_sent(collector: Collector, tmp_path: Path):
    async with serving(tmp_path, otlp_endpoint=collector.url, trace_share=0) as http:
        await make_dataset(http)
        await report(http, solved(1))
    assert collector.bodies == []


async def test_probes_are_not_traced(collector: Collector, tmp_path: Path):
    async with serving(tmp_path, otlp_endpoint=collector.url) as http:
        for path in ("/livez", "/readyz", "/metrics", "/version"):
            await http.get(path)
    assert [span.name for span in collector.requests()] == ["GET /version"]


async def test_a_failure_of_the_service_is_an_error_and_a_refusal_is_none(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with serving(tmp_path, otlp_endpoint=collector.url) as http:
        await make_dataset(http)
        await http.get("/datasets/unknown")
        monkeypatch.setattr("bots_service.usecases.report_outcomes.read_evidence", None)
        await http.post("/report", json={"dataset": "guru", "outcomes": [solved(1)]})
    errors = {span.name: (span.is_error, span.facts.get("error.type")) for span in collector.requests()}
    assert errors["GET /datasets/{dataset}"] == (False, None)
    assert errors["POST /report"] == (True, "500")


async def test_no_request_waits_for_a_collector_that_hangs_nor_does_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")  # milliseconds; it hangs on the first spans already
    with collecting(hangs=True) as collector, capture_logs() as lines:
        async with serving(tmp_path, otlp_endpoint=collector.url) as http:
            await make_dataset(http)
            while not collector.hears.is_set():
                await report(http, solved(1))
            receipt = await report(http, solved(1))
            assert receipt["closed"]
        assert not collector.free.is_set()  # it has answered nothing yet
    assert [line["event"] for line in lines if line["event"] == "spans_lost"]


async def test_a_collector_that_is_away_fails_no_request(tmp_path: Path):
    async with serving(tmp_path, otlp_endpoint=f"http://127.0.0.1:{free_port()}") as http:
        await make_dataset(http)
        receipts = [await report(http, solved(1)) for _ in range(3)]
    assert [receipt["step"] for receipt in receipts] == [1, 2, 3]


SERVE = """
import asyncio, sys
from pathlib import Path
from tests.api.conftest import serving
from tests.api.pools import make_dataset, report, select, solved

async def serve():
    async with serving(Path(sys.argv[1])) as http:
        await make_dataset(http)
        await select(http, 1)
        await report(http, solved(1))
"""
WHAT_IS_LOADED = """
asyncio.run(serve())
loaded = [name for name in sys.modules if name.startswith(("opentelemetry.exporter", "opentelemetry.sdk.trace"))]
print(loaded, file=sys.stderr)
"""
WITH_A_PROVIDER_OF_THE_PROCESS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

sent, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(sent))
trace.set_tracer_provider(provider)
asyncio.run(serve())
print([span.name for span in sent.get_finished_spans()], file=sys.stderr)
"""


@pytest.mark.parametrize("script", [WHAT_IS_LOADED, WITH_A_PROVIDER_OF_THE_PROCESS])
def test_without_a_collector_nothing_is_loaded_for_it_and_nobody_else_traces(script: str, tmp_path: Path):
    # FastAPI and Redis's client import OpenTelemetry's API by themselves, and FastAPI would trace where it can.
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", SERVE + script, str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "grpc://host:4317", "http://", "http://user:secret@host"])
def test_what_is_no_collectors_url_is_refused_without_being_shown(url: str):
    with pytest.raises(ValueError, match="for example http") as refused:
        Settings(otlp_endpoint=url)
    assert "secret" not in str(refused.value)

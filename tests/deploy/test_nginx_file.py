"""nginx's configuration, read; tests/deploy/test_nginx.py runs it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bots_service.api.app import ROUTES
from bots_service.api.bodies import TRAINING_LIMIT
from bots_service.serving.server import KEEP_ALIVE_S
from bots_service.settings import Settings
from tests.deploy.files import NGINX, directives, nginx, seconds, size


def only(block, name):
    """The first argument of the one directive of this name that stands directly in the block."""
    (found,) = [each for each in block if each["directive"] == name]
    return found["args"][0]


def location(*args):
    (found,) = [each for each in directives(nginx(), "location") if each["args"] == list(args)]
    return found["block"]


def server():
    (found,) = [each for each in directives(nginx(), "server") if "block" in each]
    return found["block"]


def streamed():
    """The location of what is large."""
    (found,) = [each for each in directives(nginx(), "location") if "datasets" in each["args"][-1]]
    return found


def test_a_scanner_of_its_flaws_finds_none():
    gixy = Path(sys.executable).with_name("gixy")
    done = subprocess.run([gixy, "--format", "json", NGINX], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout) == [], done.stdout


def test_it_closes_idle_connections_before_the_service_does():
    (upstream,) = directives(nginx(), "upstream")
    assert seconds(only(upstream["block"], "keepalive_timeout")) < KEEP_ALIVE_S


def test_it_tells_replicas_of_one_name_apart():
    (upstream,) = directives(nginx(), "upstream")
    (server,) = [each["args"] for each in upstream["block"] if each["directive"] == "server"]
    (hashed,) = [each["args"] for each in upstream["block"] if each["directive"] == "hash"]
    assert "resolve" in server  # one name, many addresses: `hash ... consistent` would go through them in turns
    assert "consistent" not in hashed


@pytest.mark.parametrize("args", [("~", "^/(select|report)$"), ("@again",)])
def test_it_waits_longer_for_selects_and_reports_than_the_service_works_on_them(args):
    assert seconds(only(location(*args), "proxy_read_timeout")) > Settings.model_fields["request_timeout_s"].default


def test_it_takes_bodies_as_large_as_the_service_does():
    assert size(only(server(), "client_max_body_size")) >= TRAINING_LIMIT
    pools = streamed()["block"]
    assert size(only(pools, "client_max_body_size")) >= Settings.model_fields["max_upload_bytes"].default
    assert only(pools, "proxy_request_buffering") == "off"


def test_the_routes_of_pools_and_backups_are_streamed_and_no_others():
    paths = {route.path for module in ROUTES for route in module.router.routes}
    made = {path: re.sub(r"\{\w+\}", "x", path) for path in paths}
    assert {path for path, example in made.items() if re.search(streamed()["args"][1], example)} == {
        "/datasets/{dataset}",
        "/datasets/{dataset}/tasks",
        "/datasets/{dataset}/export",
        "/datasets/{dataset}/runs/{run}/tasks",
        "/imports",
    }


def test_only_what_has_a_key_is_done_again_after_it_was_sent():
    with_key = [each for each in directives(nginx(), "proxy_next_upstream") if "non_idempotent" in each["args"]]
    assert with_key == [each for each in location("@again") if each["directive"] == "proxy_next_upstream"]
    assert not any("http_503" in each["args"] for each in directives(nginx(), "proxy_next_upstream"))


def test_the_log_holds_no_header_and_no_query():
    (line,) = directives(nginx(), "log_format")
    logged = set(re.findall(r"\$\w+", " ".join(line["args"])))
    assert not {name for name in logged if name.startswith(("$http_", "$arg", "$query", "$request_uri", "$cookie"))}
    assert "$request" not in logged

"""docker-compose.yml. `docker compose config` accepted it by hand; here its schema and its references are checked."""

import re
import subprocess
import sys

import pytest
from sqlalchemy import make_url

from bots_service.serving.server import FINISH_S
from tests.deploy.files import (
    GIB,
    ROOT,
    SETTINGS,
    compose,
    directives,
    environment_example,
    nginx,
    seconds,
    settings_from,
    size,
)
from tests.deploy.test_dockerfile import environment

VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(:[-?][^}]*)?\}")

ASKED_FOR_LATER = "GRAFANA_PASSWORD"  # by Grafana's own start, see test_monitoring.py


def service(name):
    return compose()["services"][name]


def settings_of(name):
    """The settings that a service gets, as text."""
    return {**environment(), **environment_example(), **service(name)["environment"]}


def test_it_follows_the_schema_of_compose_files():
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        "docker-compose.yml",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_variable_is_explained_and_those_without_a_default_are_asked_for():
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    found = VARIABLE.findall(text)
    assert {name for name, _ in found} - {"BOTS_VERSION"} <= set(environment_example())
    for name, more in found:
        if name != ASKED_FOR_LATER:
            assert more.startswith(":?") == (environment_example().get(name) == ""), name


def test_every_name_in_the_example_is_used():
    known = SETTINGS | {name for name, _ in VARIABLE.findall((ROOT / "docker-compose.yml").read_text("utf-8"))}
    assert set(environment_example()) <= known
    assert {name for name in settings_of("bots") if name.startswith("BOTS_")} <= SETTINGS


def test_its_settings_are_proper(monkeypatch):
    given = {name: VARIABLE.sub("made-for-this-test", str(value)) for name, value in settings_of("bots").items()}
    settings = settings_from({name: value for name, value in given.items() if name in SETTINGS}, monkeypatch)
    assert settings.migrate_on_start is False
    assert settings.redis_url is not None


@pytest.mark.parametrize("name", ["bots", "migrate"])
def test_servers_that_urls_name_are_there_and_waited_for(name):
    hosts = set()
    for variable in ("BOTS_DATABASE_URL", "BOTS_REDIS_URL"):
        url = make_url(VARIABLE.sub("made", service("bots")["environment"][variable]))
        assert url.host in compose()["services"]
        assert set(service(url.host)["networks"]) & set(service(name)["networks"])
        hosts.add(url.host)
    waited = service(name)["depends_on"]
    assert all(waited[host]["condition"] == "service_healthy" for host in hosts & set(waited))
    assert "postgres" in waited


def test_the_service_waits_for_the_migration():
    assert service("bots")["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert service("migrate")["command"] == ["migrate"]
    assert service("bots")["deploy"]["replicas"] == "${REPLICAS:-2}"


def test_nginx_finds_the_service_and_is_found():
    (server,) = directives(directives(nginx(), "upstream")[0]["block"], "server")
    host, _, port = server["args"][0].partition(":")
    assert port == environment()["BOTS_PORT"]
    assert set(service(host)["networks"]) & set(service("nginx")["networks"])
    (listens,) = directives(nginx(), "listen")
    (published,) = service("nginx")["ports"]
    assert published.endswith(f":{listens['args'][0]}")
    assert {name for name, each in compose()["services"].items() if "ports" in each} == {"nginx", "grafana"}


def test_mounted_files_are_there():
    mounted = [
        volume.split(":")[0]
        for each in compose()["services"].values()
        for volume in each.get("volumes", [])
        if isinstance(volume, str)
    ]
    paths = [ROOT / path for path in mounted if path.startswith("./")]
    assert paths
    assert all(path.exists() for path in paths)
    assert {name for name in mounted if not name.startswith("./")} == set(compose()["volumes"])


def test_redis_keeps_what_it_is_told_and_never_evicts():
    command = service("redis")["command"]
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_a_replica_that_is_stopped_has_time_to_answer():
    drain_s = float(service("bots")["environment"]["BOTS_DRAIN_S"])
    assert seconds(service("bots")["stop_grace_period"]) > drain_s + FINISH_S


def test_a_replica_has_room_for_its_caches():
    limit = size(service("bots")["deploy"]["resources"]["limits"]["memory"])
    assert limit >= 2 * int(environment_example()["BOTS_CACHE_BYTES"]) + GIB


def test_no_image_is_whatever_is_newest():
    images = [each["image"] for each in compose()["services"].values()]
    assert all(re.search(r":(v?\d|\$\{BOTS_VERSION:-local\})", image) for image in images)


def test_nothing_of_ours_may_write_its_own_files_or_gain_rights():
    for name in ("bots", "migrate", "nginx", "prometheus", "grafana"):
        assert service(name)["read_only"] is True
        assert service(name)["cap_drop"] == ["ALL"]
        assert service(name)["security_opt"] == ["no-new-privileges:true"]

"""The files that ship the service, read: Dockerfile, Compose, Kubernetes, Prometheus, Grafana, workflows."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from sqlalchemy import make_url

from bots_service.api.app import ROUTES
from bots_service.serving.server import FINISH_S
from tests.deploy.files import (
    GIB,
    KUBERNETES,
    ROOT,
    SETTINGS,
    compose,
    directives,
    dockerfile,
    environment_example,
    nginx,
    resources,
    seconds,
    settings_from,
    size,
)
from tests.ports import free_port
from tests.serving import running_service


def values(instruction):
    return [each["value"] for each in dockerfile() if each["instruction"] == instruction]


def environment():
    return dict(pair.split("=", 1) for pair in shlex.split(" ".join(values("ENV"))))


def copied():
    taken = [shlex.split(value) for value in values("COPY")]
    return [source for words in taken if not words[0].startswith("--from") for source in words[:-1]]


def healthcheck():
    (value,) = values("HEALTHCHECK")
    return json.loads(value.partition("CMD ")[2])


def test_what_is_copied_is_there_and_is_sent_to_the_engine():
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    assert set(copied()) == sent
    assert [source for source in sent if not (ROOT / source).exists()] == []


def test_its_variables_are_settings_with_proper_values_and_hold_no_secret(monkeypatch):
    ours = {name: value for name, value in environment().items() if name.startswith("BOTS_")}
    assert set(ours) <= SETTINGS
    assert not any(word in name for name in ours for word in ("KEY", "URL", "PASSWORD"))
    assert str(settings_from(ours, monkeypatch).port) == values("EXPOSE")[0]


def test_it_runs_as_a_number_that_is_not_root_and_owns_its_data():
    user = values("USER")[-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    number = user.partition(":")[0]
    folder = environment()["BOTS_DATA_DIR"]
    assert values("VOLUME") == [folder]
    assert any(
        f"--uid {number} " in run and f"--owner={number} --group={number} {folder}" in run for run in values("RUN")
    )


def test_the_health_check_tells_a_service_that_answers_from_one_that_does_not(tmp_path):
    command = [sys.executable, *healthcheck()[1:]]

    def code(port):
        return subprocess.run(
            command, env={**os.environ, "BOTS_PORT": str(port)}, capture_output=True, check=False
        ).returncode

    with running_service(tmp_path) as service:
        assert code(service.port) == 0
    assert code(free_port()) != 0


VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(:[-?][^}]*)?\}")

ASKED_FOR_LATER = "GRAFANA_PASSWORD"  # by Grafana's own start, see test_monitoring.py


def service(name):
    return compose()["services"][name]


def settings_of(name):
    return {**environment(), **environment_example(), **service(name)["environment"]}


def schema_faults(schema: str, *paths: Path) -> str:
    command = [sys.executable, "-m", "check_jsonschema", "--quiet", "--builtin-schema", schema, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_it_follows_the_schema_of_compose_files():
    assert schema_faults("vendor.compose-spec", ROOT / "docker-compose.yml") == ""


def test_every_variable_is_explained_and_those_without_a_default_are_asked_for():
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    found = VARIABLE.findall(text)
    assert {name for name, _ in found} - {"BOTS_VERSION"} <= set(environment_example())
    for name, more in found:
        if name != ASKED_FOR_LATER:
            assert more.startswith(":?") == (environment_example().get(name) == ""), name


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


def test_nginx_finds_the_service_and_is_found():
    (server,) = directives(directives(nginx(), "upstream")[0]["block"], "server")
    host, _, port = server["args"][0].partition(":")
    assert port == environment()["BOTS_PORT"]
    assert set(service(host)["networks"]) & set(service("nginx")["networks"])
    (listens,) = directives(nginx(), "listen")
    (published,) = service("nginx")["ports"]
    assert published.endswith(f":{listens['args'][0]}")
    assert {name for name, each in compose()["services"].items() if "ports" in each} == {"nginx", "grafana"}


def test_a_replica_that_is_stopped_has_time_to_answer():
    drain_s = float(service("bots")["environment"]["BOTS_DRAIN_S"])
    assert seconds(service("bots")["stop_grace_period"]) > drain_s + FINISH_S


def test_nothing_of_ours_may_write_its_own_files_or_gain_rights():
    for name in ("bots", "migrate", "nginx", "prometheus", "grafana"):
        assert service(name)["read_only"] is True
        assert service(name)["cap_drop"] == ["ALL"]
        assert service(name)["security_opt"] == ["no-new-privileges:true"]


OLDEST = "1.30"  # the first with preStop.sleep switched on


def pod(kind):
    return resources()[kind]["spec"]["template"]["spec"]


def container():
    (found,) = pod("Deployment")["containers"]
    return found


def containers():
    """Every container of ours, those that only prepare included."""
    return [
        each
        for kind in ("Deployment", "Job")
        for name in ("containers", "initContainers")
        for each in pod(kind).get(name, [])
    ]


def configured():
    return resources()["ConfigMap"]["data"]


def secret():
    return yaml.safe_load((KUBERNETES / "secret.example.yaml").read_text("utf-8"))


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("kind", [*resources(), "Secret"])
def test_a_resource_follows_its_schema(kind, version):
    resource = secret() if kind == "Secret" else resources()[kind]
    kubernetes_validate.validate(resource, version, strict=True)


def test_settings_are_real_and_proper(monkeypatch):
    given = {**configured(), **secret()["stringData"]}
    assert set(given) <= SETTINGS
    assert not set(configured()) & set(secret()["stringData"])
    assert (
        given.pop("BOTS_ADMIN_KEY") == ""
    )  # nobody's key stands in a public file, and the service refuses an empty one
    assert settings_from(given, monkeypatch).migrate_on_start is False


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_probes_ask_real_routes_of_a_real_port(probe):
    asked = container()[probe]["httpGet"]
    assert asked["path"] in {route.path for route in ROUTES}
    assert asked["port"] in {port["name"] for port in container()["ports"]}
    assert (asked["path"] == "/readyz") == (probe == "readinessProbe")


def test_ports_agree():
    (port,) = container()["ports"]
    assert str(port["containerPort"]) == configured()["BOTS_PORT"]
    assert [each["targetPort"] for each in resources()["Service"]["spec"]["ports"]] == [port["name"]]
    (ingress,) = resources()["NetworkPolicy"]["spec"]["ingress"]
    assert ingress["ports"] == [{"port": port["name"]}]


def test_a_pod_that_is_stopped_has_time_to_answer():
    wait_s = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod("Deployment")["terminationGracePeriodSeconds"] > wait_s + float(configured()["BOTS_DRAIN_S"]) + FINISH_S


def test_a_pod_has_room_for_its_caches():
    limit = size(container()["resources"]["limits"]["memory"])
    assert limit >= 2 * int(configured()["BOTS_CACHE_BYTES"]) + GIB


def test_pods_run_as_the_user_of_the_image_and_may_do_nothing_else():
    user = int(values("USER")[-1].partition(":")[0])
    for kind in ("Deployment", "Job"):
        context = pod(kind)["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, user)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod(kind)["automountServiceAccountToken"] is False
    for each in containers():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= set(each["resources"])


PROFILE = "monitoring"
GRAFANA = ROOT / "deploy" / "grafana"
PROMETHEUS = ROOT / "deploy" / "prometheus"
OPTIONAL = {name for name, each in compose()["services"].items() if "profiles" in each}
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))


def test_they_start_only_when_asked_for():
    assert {"prometheus", "grafana"} == OPTIONAL
    for name in OPTIONAL:
        assert service(name)["profiles"] == [PROFILE]
    for name in compose()["services"].keys() - OPTIONAL:
        assert not OPTIONAL & set(service(name).get("depends_on", ()))
        assert "GRAFANA" not in str(service(name))


def test_the_key_that_prometheus_reads_stays_out_of_git():
    (job,) = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    path = f"deploy/prometheus/{job['authorization']['credentials_file']}"
    assert f"/{path}" in (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert path in (ROOT / "docs/deployment.md").read_text("utf-8")


@pytest.mark.parametrize(("password", "starts"), [("", False), ("made-for-this-test", True)])
def test_grafana_does_not_start_with_the_password_that_everybody_knows(password, starts):
    *shell, script = service("grafana")["entrypoint"]
    asked = service("grafana")["environment"]["GF_SECURITY_ADMIN_PASSWORD"]
    assert VARIABLE.fullmatch(asked)
    given = {"GF_SECURITY_ADMIN_PASSWORD": password, "PATH": "/usr/bin:/bin"}
    command = [*shell, script.replace("$$", "$").replace("/run.sh", "echo started")]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert (done.stdout == "started\n") == starts
    assert ("GRAFANA_PASSWORD" in done.stderr) != starts


def test_dashboards_are_what_the_tool_makes():
    command = [sys.executable, "-m", "tools.dashboards", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert len(DASHBOARDS) == 2
    assert len({json.loads(path.read_text("utf-8"))["uid"] for path in DASHBOARDS}) == len(DASHBOARDS)


NAMES = re.compile(r"BOTS_[A-Z_]*[A-Z]")
OF_THE_CLIENT = {"BOTS_URL", "BOTS_API_KEY"}
OF_COMPLETION = {"BOTS_COMPLETE"}  # which typer reads, to complete commands in a shell
OF_COMPOSE = {"BOTS_VERSION"}
OF_CLUSTERS = {"BOTS_DATASET", "BOTS_KEEP_EVERY_S"}  # which examples/clusters/with_service.sh reads


def test_every_setting_is_told_in_the_command_lines_page():
    named = set(NAMES.findall((ROOT / "docs/cli.md").read_text("utf-8")))
    assert named - OF_THE_CLIENT - OF_COMPLETION == SETTINGS


@pytest.mark.parametrize(
    "path", ["docs/deployment.md", "Dockerfile", "docker-compose.yml", ".env.example", "deploy/nginx/nginx.conf"]
)
def test_the_variables_that_are_named_exist(path):
    named = set(NAMES.findall((ROOT / path).read_text("utf-8")))
    assert named - OF_COMPOSE - OF_CLUSTERS - OF_THE_CLIENT <= SETTINGS | set(environment_example())


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):(?!=)", MAKEFILE, re.MULTILINE))


def test_workflows_follow_the_schema():
    assert schema_faults("vendor.github-workflows", *WORKFLOWS) == ""


def test_workflows_give_nobody_a_way_in():
    # Actions pinned by commit, no credentials left for later steps, no code made of what outsiders write.
    command = [str(Path(sys.executable).with_name("zizmor")), "--offline", "--no-progress", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_that_exist(path):
    steps = [step for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values() for step in job["steps"]]
    asked = [step["run"].split()[1] for step in steps if step.get("run", "").startswith("make ")]
    assert asked
    assert [target for target in asked if target not in TARGETS] == []

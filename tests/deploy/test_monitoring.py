"""Prometheus and Grafana beside the service: what their files name is there, and nobody gets them who did not ask."""

import json
import subprocess
import sys

import pytest
import yaml

from tests.deploy.files import ROOT, compose
from tests.deploy.test_compose import VARIABLE, service
from tests.deploy.test_dockerfile import environment

PROFILE = "monitoring"
GRAFANA = ROOT / "deploy" / "grafana"
PROMETHEUS = ROOT / "deploy" / "prometheus"
OPTIONAL = {name for name, each in compose()["services"].items() if "profiles" in each}
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))


def provisioned(kind: str, name: str):
    (listed,) = yaml.safe_load((GRAFANA / "provisioning" / kind / name).read_text("utf-8"))[
        {"datasources": "datasources", "dashboards": "providers"}[kind]
    ]
    return listed


def mounts(name: str) -> dict[str, str]:
    """Return where each file or volume is seen in a container."""
    volumes = [volume.split(":") for volume in service(name)["volumes"] if isinstance(volume, str)]
    return {inside: outside for outside, inside, *_ in volumes}


def test_they_start_only_when_asked_for():
    assert {"prometheus", "grafana"} == OPTIONAL
    for name in OPTIONAL:
        assert service(name)["profiles"] == [PROFILE]
    for name in compose()["services"].keys() - OPTIONAL:
        assert not OPTIONAL & set(service(name).get("depends_on", ()))
        assert "GRAFANA" not in str(service(name))


def test_prometheus_scrapes_each_replica():
    (job,) = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    (host,) = found["names"]
    assert str(found["port"]) == environment()["BOTS_PORT"]
    assert set(service(host)["networks"]) & set(service("prometheus")["networks"])
    assert mounts("prometheus")["/etc/prometheus"] == "./deploy/prometheus"
    assert "--config.file=/etc/prometheus/prometheus.yml" in service("prometheus")["command"]


def test_the_key_that_prometheus_reads_stays_out_of_git():
    (job,) = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    path = f"deploy/prometheus/{job['authorization']['credentials_file']}"
    assert f"/{path}" in (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert path in (ROOT / "docs/deployment.md").read_text("utf-8")


def test_grafana_finds_prometheus_and_its_dashboards():
    source = provisioned("datasources", "prometheus.yml")
    scheme, host, port = source["url"].split(":")
    assert (scheme, port) == ("http", "9090")
    assert set(service(host.strip("/"))["networks"]) & set(service("grafana")["networks"])
    path = provisioned("dashboards", "bots.yml")["options"]["path"]
    assert mounts("grafana")[path] == "./deploy/grafana/dashboards"
    for kind, name in (("datasources", "prometheus.yml"), ("dashboards", "bots.yml")):
        inside = f"/etc/grafana/provisioning/{kind}/{name}"
        assert mounts("grafana")[inside] == f"./deploy/grafana/provisioning/{kind}/{name}"
    home = service("grafana")["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home in {f"{path}/{dashboard.name}" for dashboard in DASHBOARDS}


def test_rates_are_taken_over_scrapes_as_often_as_they_are():
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    assert (
        provisioned("datasources", "prometheus.yml")["jsonData"]["timeInterval"] == config["global"]["scrape_interval"]
    )


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


def test_only_this_machine_reaches_grafana():
    (published,) = service("grafana")["ports"]
    assert published.startswith("127.0.0.1:")


def test_dashboards_are_what_the_tool_makes():
    command = [sys.executable, "-m", "tools.dashboards", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert len(DASHBOARDS) == 2
    assert len({json.loads(path.read_text("utf-8"))["uid"] for path in DASHBOARDS}) == len(DASHBOARDS)

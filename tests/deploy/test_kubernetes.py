"""deploy/kubernetes. kubectl built it by hand; here schemas and references are checked."""

import kubernetes_validate
import pytest
import yaml

from bots_service.api.app import ROUTES
from bots_service.serving.server import FINISH_S
from tests.deploy.files import GIB, KUBERNETES, SETTINGS, resources, settings_from, size
from tests.deploy.test_dockerfile import values

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


def test_every_file_is_part_of_the_kustomization_but_the_secret():
    named = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text("utf-8"))["resources"]
    there = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}
    assert set(named) == there


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
    assert asked["path"] in {route.path for module in ROUTES for route in module.router.routes}
    assert asked["port"] in {port["name"] for port in container()["ports"]}
    assert (asked["path"] == "/readyz") == (probe == "readinessProbe")


def test_prometheus_scrapes_a_real_route_of_the_service():
    folder = KUBERNETES / "monitoring"
    (named,) = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))["resources"]
    monitor = yaml.safe_load((folder / named).read_text("utf-8"))["spec"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["path"] in {route.path for module in ROUTES for route in module.router.routes}
    assert endpoint["port"] in {port["name"] for port in resources()["Service"]["spec"]["ports"]}
    (labels,) = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text("utf-8"))["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels["pairs"].items()


def test_ports_agree():
    (port,) = container()["ports"]
    assert str(port["containerPort"]) == configured()["BOTS_PORT"]
    assert [each["targetPort"] for each in resources()["Service"]["spec"]["ports"]] == [port["name"]]
    (ingress,) = resources()["NetworkPolicy"]["spec"]["ingress"]
    assert ingress["ports"] == [{"port": port["name"]}]


def test_labels_agree():
    labels = resources()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        resources()["Deployment"]["spec"]["selector"]["matchLabels"],
        resources()["Service"]["spec"]["selector"],
        resources()["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        *(each["labelSelector"]["matchLabels"] for each in pod("Deployment")["topologySpreadConstraints"]),
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    # The Service must not send requests to the Job's pod.
    assert not selectors[1].items() <= resources()["Job"]["spec"]["template"]["metadata"]["labels"].items()


def test_names_agree():
    assert (
        resources()["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"]
        == resources()["Deployment"]["metadata"]["name"]
    )
    for each in containers():
        assert each["envFrom"] == [
            {"configMapRef": {"name": resources()["ConfigMap"]["metadata"]["name"]}},
            {"secretRef": {"name": secret()["metadata"]["name"]}},
        ]
    for kind in ("Deployment", "Job"):
        assert pod(kind)["serviceAccountName"] == resources()["ServiceAccount"]["metadata"]["name"]
        volumes = {volume["name"] for volume in pod(kind)["volumes"]}
        assert all(mount["name"] in volumes for each in containers() for mount in each["volumeMounts"])


def test_a_variable_of_kubernetes_does_not_set_our_port():
    # For a Service called bots it would put BOTS_PORT=tcp://... into every container.
    assert all(pod(kind)["enableServiceLinks"] is False for kind in ("Deployment", "Job"))


def test_a_pod_that_is_stopped_has_time_to_answer():
    wait_s = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod("Deployment")["terminationGracePeriodSeconds"] > wait_s + float(configured()["BOTS_DRAIN_S"]) + FINISH_S


def test_a_pod_has_room_for_its_caches_and_uploads():
    limit = size(container()["resources"]["limits"]["memory"])
    assert limit >= (2 * int(configured()["BOTS_CACHE_BYTES"]) + GIB) * int(configured()["BOTS_WORKERS"])
    sizes = {volume["name"]: size(volume["emptyDir"]["sizeLimit"]) for volume in pod("Deployment")["volumes"]}
    assert sizes["temporary"] > int(configured()["BOTS_MAX_UPLOAD_BYTES"])


def test_there_are_always_two():
    autoscaler = resources()["HorizontalPodAutoscaler"]["spec"]
    assert autoscaler["minReplicas"] >= 2
    assert "replicas" not in resources()["Deployment"]["spec"]


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

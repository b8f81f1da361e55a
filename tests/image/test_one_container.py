"""The image alone: what `docker run` of it gives, with SQLite in a volume."""

import ast
from collections.abc import Iterator

import pytest

from bots_client import Client, Outcome, Task
from tests.deploy.files import ROOT
from tests.image.containers import Container, EngineError, inspect, started, volume

CAPABILITIES_OF_NOBODY = "CapEff:\t0000000000000000"


@pytest.fixture(scope="module")
def data() -> Iterator[str]:
    with volume("data") as name:
        yield name


def prepared(image: str, network: str, data: str) -> Container:
    hardened = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--tmpfs=/tmp")
    return Container(
        "alone", image, *hardened, f"--network={network}", f"--volume={data}:/data", "--env=BOTS_INSECURE=true"
    )


@pytest.fixture(scope="module")
def alone(image: str, network: str, data: str) -> Iterator[Container]:
    with started(prepared(image, network, data)) as container:
        container.wait_until_ready()
        yield container


def test_the_engine_takes_the_health_check_from_the_image(alone: Container, image: str, network: str):
    assert inspect(image)["Healthcheck"]["Interval"] == 10e9
    assert alone.is_well()
    # The same image without a service: unwell.
    with started(Container("idle", image, f"--network={network}", "--entrypoint=sleep", command=("60",))) as idle:
        assert not idle.is_well()


def test_it_is_not_root_has_no_rights_and_writes_to_its_volumes_alone(alone: Container):
    assert alone.execute("id", "-u") == alone.execute("id", "-g") == "10001"
    assert CAPABILITIES_OF_NOBODY in alone.execute("cat", "/proc/1/status")
    assert alone.execute("stat", "--format", "%u:%g", "/data") == "10001:10001"
    assert alone.does("touch", "/data/written")
    assert alone.does("touch", "/tmp/written")
    for folder in ("/", "/opt/bots", "/var"):
        assert "Read-only" in refused(alone, "touch", f"{folder}/written")


def refused(container: Container, *command: str) -> str:
    with pytest.raises(EngineError) as failure:
        container.execute(*command)
    return str(failure.value)


def test_all_that_the_service_imports_is_in_the_image(alone: Container):
    modules = set()
    for path in (ROOT / "service/bots_service").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):  # imports inside functions among them
            if isinstance(node, ast.Import):
                modules |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.module
                modules.add(node.module)
    assert {"scipy.special", "pyarrow"} <= modules
    alone.execute("python", "-c", f"import {', '.join(sorted(modules))}")


def test_another_container_goes_on_with_the_volume_and_the_first_ends_by_itself(
    alone: Container, image: str, network: str, data: str
):
    with Client(alone.url) as bots:
        bots.create_dataset("kept", [Task("one"), Task("two")])
        told = bots.report("kept", [Outcome.counts("one", 1, 4)])
    assert alone.stop() == 0  # 137: it had to be killed
    alone.remove()
    with started(prepared(image, network, data)) as next_one:
        next_one.wait_until_ready()
        with Client(next_one.url) as bots:
            assert bots.run("kept").seq == told.seq

"""The engine, the image and a deployment of it; all tests of this folder are skipped where there is no engine."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.image import containers
from tests.image.containers import (
    IMAGE,
    EngineError,
    base_image,
    build_image,
    fetch_wheels,
    import_bases,
    podman,
    why_not,
)


@pytest.fixture(scope="session")
def engine() -> None:
    """Something that runs containers; its images of Debian are there."""
    reason = why_not()
    if reason is None:
        import_bases()
        try:
            podman("run", "--rm", "--network=none", base_image(), "true")
        except EngineError as error:
            reason = f"this machine starts no containers: {error}"
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def image(engine: None) -> str:
    fetch_wheels()
    build_image()
    return IMAGE


@pytest.fixture(scope="session")
def network(engine: None) -> Iterator[str]:
    with containers.network() as name:
        yield name


@pytest.fixture(scope="module")
def deployment(image: str, network: str) -> Iterator[containers.Deployment]:
    """Two replicas with PostgreSQL and Redis, ready."""
    with ExitStack() as stack:
        yield containers.Deployment(network, stack)

"""A run moves to a service that ends on the way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bots_client import Client, Outcome, Task, UnreachableError
from tests.serving import ServiceProcess, running_service

TASKS = [Task(f"t{number}", (number % 16 / 16, 1.0)) for number in range(500)]


def test_a_service_that_is_killed_within_an_import_shows_nothing_of_it(tmp_path: Path):
    with running_service(tmp_path / "filled") as filled, Client(filled.url) as old:
        old.create_dataset("pool", TASKS, reference_models=["weak", "strong"])
        for number in range(20):
            old.report("pool", [Outcome.counts(f"t{number}", 3, 8)])
        journal = b"".join(old.export_run("pool"))
    service = ServiceProcess(tmp_path / "killed")
    service.start()

    def half() -> Iterator[bytes]:
        yield journal[: len(journal) * 2 // 3]
        service.kill()
        yield journal[len(journal) * 2 // 3 :]

    with Client(service.url, deadline_s=5.0) as new:
        new.create_dataset("pool", TASKS, reference_models=["weak", "strong"])
        with pytest.raises(UnreachableError):
            new.import_run(half, "pool")
        service.start()
        assert new.run("pool").seq == 0
        assert new.import_run(lambda: [journal], "pool").seq == 20
    service.stop()

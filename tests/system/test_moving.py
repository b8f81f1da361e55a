"""Runs move between real clients and services, which may end at any moment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bots_client import Client, ConflictError, InvalidRequestError, Outcome, Task, UnreachableError
from tests.serving import ServiceProcess, running_service

TASKS = [Task(f"t{number}", (number % 16 / 16, 1.0)) for number in range(500)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with a dataset of some steps."""
    with running_service(tmp_path_factory.mktemp("filled")) as service, Client(service.url) as bots:
        bots.create_dataset("pool", TASKS, reference_models=["weak", "strong"])
        for number in range(20):
            bots.report("pool", [Outcome.counts(f"t{number}", 3, 8)], idempotency_key=f"key-{number}")
        yield service


def test_a_training_job_goes_on_at_another_service(filled: ServiceProcess, tmp_path: Path):
    file = tmp_path / "pool.ndjson"
    with Client(filled.url) as old:
        tasks = b"".join(old.download_tasks("pool"))
        file.write_bytes(b"".join(old.export_run("pool")))
        before, history = old.run("pool"), list(old.history("pool"))
    with running_service(tmp_path / "new") as service, Client(service.url) as new:
        new.upload_dataset("pool", lambda: [tasks], media_type="application/x-ndjson")
        sent: list[int] = []
        made = new.import_run(file, "pool", on_progress=lambda count, _: sent.append(count))
        assert (made.dataset, made.run, made.seq, sent[-1]) == ("pool", "default", 20, file.stat().st_size)
        assert (new.run("pool").estimates, list(new.history("pool"))) == (before.estimates, history)
        repeated = new.report("pool", [Outcome.counts("t3", 3, 8)], idempotency_key="key-3")
        assert (repeated.duplicate, repeated.seq) == (True, 4)
        selection = new.select("pool", 4)
        outcomes = [Outcome.counts(task, 4, 8) for task in selection.ids]
        assert new.report("pool", outcomes, selection=selection).step == 21


def test_a_run_moves_to_another_name_and_only_whole(filled: ServiceProcess):
    with Client(filled.url) as bots:
        chunks = list(bots.export_run("pool"))
        assert bots.import_run(lambda: chunks, "pool", "moved").run == "moved"
        with pytest.raises(ConflictError):
            bots.import_run(lambda: chunks, "pool", "moved")
        with pytest.raises(InvalidRequestError, match="line 21 is no entry"):
            bots.import_run(lambda: [b"".join(chunks)[:-9]], "pool", "other")
        assert bots.prune(keep_journal_days=30.0, dry_run=True).runs == ()
        assert list(bots.tasks("pool", "moved")) == list(bots.tasks("pool"))
        bots.delete_run("pool", "moved")


def test_a_service_that_is_killed_within_an_import_shows_nothing_of_it(filled: ServiceProcess, tmp_path: Path):
    with Client(filled.url) as old:
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
            new.import_run(half, "pool", deadline_s=5.0)
        service.start()
        assert new.run("pool").seq == 0
        assert new.import_run(lambda: [journal], "pool").seq == 20
    service.stop()

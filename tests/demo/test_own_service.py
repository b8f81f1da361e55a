"""The service that a demo or an example starts for itself."""

from pathlib import Path

from bots_client import Client, Task
from bots_service.demo.replay import own_service
from tests.serving import running_service


def test_a_service_can_leave_its_database_for_the_next(tmp_path: Path) -> None:
    with own_service(tmp_path) as url, Client(url) as client:
        client.create_dataset("kept", [Task("a"), Task("b")])
    with running_service(tmp_path) as service, Client(service.url) as client:
        assert [dataset.name for dataset in client.datasets()] == ["kept"]

"""Proxies that the environment names are for other machines."""

import pytest

from bots_client._config import is_loopback
from tests.client.answers import VERSION
from tests.client.scripted_server import answer


def test_a_service_on_this_machine_is_asked_directly(serve, connect, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nobody listens there
    server = serve(answer(VERSION))

    assert connect(server).version().version == VERSION["version"]


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://127.0.0.1:8000", False),
        ("http://[::1]:8000", False),
        ("http://localhost", False),
        ("http://10.0.0.7:8000", True),
        ("https://bots.example", True),
    ],
)
def test_only_loopback_goes_without_the_environments_proxies(url, wanted):
    assert is_loopback(url) is not wanted

"""Proxies that the environment names are for other machines, and so are certificates."""

import ssl

import pytest

from bots_client._http import is_loopback, trust_of
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


def test_only_plain_http_on_loopback_goes_without_the_known_authorities():
    spared = trust_of("http://127.0.0.1:8000")
    assert isinstance(spared, ssl.SSLContext)
    assert (spared.verify_mode, spared.check_hostname, spared.cert_store_stats()["x509_ca"]) == (
        ssl.CERT_REQUIRED,
        True,
        0,
    )
    for url in ("https://127.0.0.1:8000", "http://10.0.0.7:8000", "https://bots.example"):
        assert trust_of(url) is True

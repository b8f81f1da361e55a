"""What BOTS_REDIS_URL says."""

import pytest

from bots_service.errors import StorageUnavailableError
from bots_service.storage.redis.client import client_of


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rediss://:secret@one/0?ssl_ca_certs=/no/such/file", "ssl_ca_certs .* names no file: /no/such/file"),
        ("redis://:secret@one:port/0", "is not a Redis URL"),
        ("http://:secret@one/0", "is not a Redis URL"),
    ],
)
def test_what_can_not_be_is_refused_without_the_password(url: str, said: str):
    with pytest.raises(StorageUnavailableError, match=said) as caught:
        client_of(url, 1.0)
    assert "secret" not in str(caught.value)

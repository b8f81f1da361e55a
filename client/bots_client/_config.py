"""The service's address and API key: from arguments, otherwise from the environment."""

import ipaddress
import os
import ssl
from collections.abc import Mapping

import httpx

from bots_client import __version__

DEFAULT_URL = "http://127.0.0.1:8000"


def url_of(url: str | None) -> str:
    """Return the service's URL: the argument, or BOTS_URL, or the local default.

    Raises:
        ValueError: it is not an http(s) URL, or contains a password, which would appear in messages.
    """
    url = url or os.environ.get("BOTS_URL") or DEFAULT_URL
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"url is not a URL: {error}") from error
    if parsed.userinfo:
        raise ValueError("url contains a user name or password; pass api_key= instead")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"url {url!r} must begin with http:// or https:// and a host, such as {DEFAULT_URL}")
    if parsed.query or parsed.fragment:
        raise ValueError(f"url {url!r} has a query or fragment; pass only scheme, host, port and path")
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Return whether a URL is a loopback address, which needs no proxy and is private to this machine."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def trust_of(url: str) -> ssl.SSLContext | bool:
    """Return what httpx takes as `verify`: the known authorities, or none of them for plain HTTP on loopback.

    No certificate is ever checked there, and reading the authorities takes 20 ms.
    """
    is_plain = httpx.URL(url).scheme == "http"
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain and is_loopback(url) else True


def headers_of(api_key: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers of every request; the key is the argument, or BOTS_API_KEY, or none.

    Raises:
        ValueError: a value is not valid in a header; the message does not show it, because it may be a secret.
    """
    sent = {"User-Agent": f"bots-client/{__version__}", **(headers or {})}
    key = (api_key or os.environ.get("BOTS_API_KEY") or "").strip()  # a key read from a file ends with a newline
    if " " in key:
        raise ValueError("api_key contains a blank; pass only the key")
    if key:
        sent["Authorization"] = f"Bearer {key}"
    for name, value in sent.items():
        if not (value.isascii() and value.isprintable()):
            raise ValueError(
                f"the value of {name} (from api_key= or headers=) contains a character that is not allowed in a header"
            )
    return sent

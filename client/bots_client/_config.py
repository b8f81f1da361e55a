"""Where the service is and how to be let in: arguments first, then the environment."""

import ipaddress
import os
from collections.abc import Mapping

import httpx

from bots_client import __version__

DEFAULT_URL = "http://127.0.0.1:8000"


def url_of(url: str | None) -> str:
    """Return the service's URL: the argument, else BOTS_URL, else the local default.

    Raises:
        ValueError: it is no http(s) URL, or it holds a password, which would show in messages.
    """
    url = url or os.environ.get("BOTS_URL") or DEFAULT_URL
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"url is not a URL: {error}") from error
    if parsed.userinfo:
        raise ValueError("url holds a user name or password; pass api_key= instead")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"url {url!r} does not begin with http:// or https:// and a host, as {DEFAULT_URL} does")
    if parsed.query or parsed.fragment:
        raise ValueError(f"url {url!r} goes on after its path; pass only scheme, host, port and path")
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Say whether a URL is of this machine alone, where neither a proxy nor another machine reaches it."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def headers_of(api_key: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers of every request; the key is the argument, else BOTS_API_KEY, else none.

    Raises:
        ValueError: a header cannot carry its value; the message does not show it, as it may be a secret.
    """
    sent = {"User-Agent": f"bots-client/{__version__}", **(headers or {})}
    key = (api_key or os.environ.get("BOTS_API_KEY") or "").strip()  # a key read from a file ends with a newline
    if " " in key:
        raise ValueError("api_key holds a blank")
    if key:
        sent["Authorization"] = f"Bearer {key}"
    for name, value in sent.items():
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"the value of {name} (from api_key= or headers=) holds a character no header can carry")
    return sent

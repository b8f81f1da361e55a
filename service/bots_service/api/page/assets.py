"""The files of the page, as they are sent: read, checked and compressed once."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

INDEX = "index.html"
PLOTLY = "plotly.min.js"
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file. etag: names its content, however it is encoded; compressed: the same content by gzip."""

    media_type: str
    content: bytes
    compressed: bytes
    etag: str


def asset(name: str) -> Asset | None:
    """Return a file of the page, None where there is none of this name."""
    return _read(name) if name in _found() else None


@cache
def _read(name: str) -> Asset:
    content = _found()[name].read_bytes()
    etag = f'W/"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    return Asset(MEDIA_TYPES[_suffix(name)], content, gzip.compress(content, mtime=0), etag)


@cache
def _found() -> dict[str, Traversable]:
    """Return the files by their names: ours, and plotly's bundle from its installed package."""
    ours = files("bots_service.api.page").joinpath("files").iterdir()
    bundle = files("plotly").joinpath("package_data", PLOTLY)
    return {PLOTLY: bundle} | {file.name: file for file in ours if _suffix(file.name) in MEDIA_TYPES}


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]

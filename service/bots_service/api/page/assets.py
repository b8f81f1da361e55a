"""The files of the page, as they are sent: few, compressed once, and under an address that names their content."""

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from bots_service.api.page.bundle import bundle

INDEX = "index.html"
START = "main.js"  # the module that browsers ask for; the others come with it
STYLE = "style.css"  # all style sheets
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOLDER = "page/VERSION"  # in index.html: where the files are, without their version
SHEETS = re.compile(rf'(?: *<link rel="stylesheet" href="{FOLDER}/([\w.-]+)">\n)+')  # in index.html: their order
SHEET = re.compile(rf'href="{FOLDER}/([\w-]+\.css)"')


@dataclass(frozen=True, slots=True)
class Asset:
    """A file. etag: names its content, however it is encoded; compressed: the same content by gzip."""

    media_type: str
    content: bytes
    compressed: bytes
    etag: str


def asset(version: str, name: str) -> Asset | None:
    """Return a file of the page, None where there is none of this name, or where the page is of another version."""
    return _packed(name, _content(name)) if version == page_version() and name in _names() else None


@cache
def index() -> Asset:
    """Return the page itself, which names its other files by their version."""
    text = SHEETS.sub(f'    <link rel="stylesheet" href="{FOLDER}/{STYLE}">\n', _read(INDEX))
    return _packed(INDEX, text.replace(FOLDER, f"page/{page_version()}").encode())


@cache
def page_version() -> str:
    """Return the name of all files' content: whatever changes makes it another."""
    digest = hashlib.blake2b(digest_size=12)
    for name in sorted({INDEX, *_names()}):
        content = _content(name)
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _names() -> set[str]:
    return {STYLE, *_found()} - {INDEX}


@cache
def _content(name: str) -> bytes:
    if name == STYLE:
        return "".join(map(_read, SHEET.findall(_read(INDEX)))).encode()
    if name == START:
        return bundle(name, _read).encode()
    return _found()[name].read_bytes()


@cache
def _packed(name: str, content: bytes) -> Asset:
    etag = f'W/"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    return Asset(MEDIA_TYPES[_suffix(name)], content, gzip.compress(content, mtime=0), etag)


def _read(name: str) -> str:
    return _found()[name].read_text("utf-8")


@cache
def _found() -> dict[str, Traversable]:
    """Return the files by their names."""
    every = files("bots_service.api.page").joinpath("files").iterdir()
    return {file.name: file for file in every if _suffix(file.name) in MEDIA_TYPES}


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]

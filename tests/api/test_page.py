"""The page as it is sent: to everybody, once, and with nothing in it that a strict policy forbids."""

from html.parser import HTMLParser
from importlib.resources import files

import httpx
import pytest

FOLDER = "page"
FILES = [file.name for file in files("bots_service.api.page").joinpath("files").iterdir() if file.name != "index.html"]


class Tags(HTMLParser):
    """The elements of a document, and the texts within its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] in ("script", "style"):
            self.inline += data.strip()


async def test_nothing_in_the_page_is_inline_and_nothing_comes_from_elsewhere(http: httpx.AsyncClient):
    page = Tags((await http.get("/")).text)
    assert page.inline == ""
    for tag, attributes in page.elements:
        assert tag != "style"
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "href"):
            address = attributes.get(name) or "#"
            assert ":" not in address
            assert not address.startswith("/")  # below a prefix of a proxy, it would lead elsewhere


async def test_all_that_the_page_names_is_there(http: httpx.AsyncClient):
    page = Tags((await http.get("/")).text)
    named = {attributes.get("src") or attributes.get("href") or "" for _, attributes in page.elements}
    for address in {name for name in named if name.startswith("page/")} | {f"{FOLDER}/{name}" for name in FILES}:
        answer = await http.get(f"/{address}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] in {
            "text/css",
            "text/html",
            "text/javascript",
            "image/svg+xml",
        }


async def test_only_this_service_may_give_the_page_anything(http: httpx.AsyncClient):
    for address in ("/", f"/{FOLDER}/main.js"):
        headers = (await http.get(address)).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("address", ["/", f"/{FOLDER}/main.js"])
async def test_what_has_not_changed_is_asked_for_and_not_sent_again(http: httpx.AsyncClient, address: str):
    first = await http.get(address)
    assert first.headers["cache-control"] == "no-cache"
    again = await http.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]


@pytest.mark.parametrize("name", ["nothing.js", "..%2F__init__.py", "__init__.py", ".hidden", "%00"])
async def test_nothing_else_is_sent(http: httpx.AsyncClient, name: str):
    answer = await http.get(f"/{FOLDER}/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"

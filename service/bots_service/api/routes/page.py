"""The page at /: what the service knows, in a browser. Its files are for everybody; what it shows comes by the API."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.page.assets import Asset, asset, index
from bots_service.api.problems import NO_SUCH_ROUTE, problem_response
from bots_service.api.security import guarded_router, open_to_all

router = guarded_router(include_in_schema=False)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
READ = ["GET", "HEAD"]
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # kept, but asked for again: a newer service has another page
    "Vary": "Accept-Encoding",
}
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}  # a year, the longest that RFC 9111 thinks of


@router.api_route("/", methods=READ)
@open_to_all()
async def show_page(request: Request) -> Response:
    """Return the page."""
    return _response(request, await asyncio.to_thread(index), HEADERS)


@router.api_route("/page/{version}/{name}", methods=READ)
@open_to_all()
async def send_file(request: Request, version: str, name: str) -> Response:
    """Return a file of the page; its address names its content, so that nobody need ask for it twice."""
    found = await asyncio.to_thread(asset, version, name)
    if found is None:
        return problem_response(request, NO_SUCH_ROUTE, f"there is no {name[:80]!r} here", headers=HEADERS)
    return _response(request, found, HEADERS | FOR_EVER)


def _response(request: Request, found: Asset, around: dict[str, str]) -> Response:
    headers = {**around, "ETag": found.etag}
    if found.etag.removeprefix("W/") in request.headers.get("if-none-match", ""):  # weak and strong names compare equal
        return Response(status_code=304, headers=headers)
    if takes_gzip(request.headers.get("accept-encoding", "")):
        return Response(found.compressed, media_type=found.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(found.content, media_type=found.media_type, headers=headers)


def takes_gzip(accepted: str) -> bool:
    """Say whether a browser takes gzip, by its header Accept-Encoding; a quality of 0 refuses it (RFC 9110, 12.5.3)."""
    for coding in accepted.split(","):
        name, _, quality = coding.replace(" ", "").partition(";q=")
        if name == "gzip":
            return not quality or quality.strip("0.") != ""
    return False

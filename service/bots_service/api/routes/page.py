"""The page at /: what the service knows, in a browser. Its files are for everybody; what it shows comes by the API."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from bots_service.api.problems import NO_SUCH_ROUTE, problem_response
from bots_service.api.security import guarded_router, open_to_all

router = guarded_router(include_in_schema=False)

FILES = StaticFiles(packages=[("bots_service.api.page", "files")])
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
}


@router.api_route("/", methods=READ)
@open_to_all()
async def show_page(request: Request) -> Response:
    """Return the page."""
    return await send_file(request, "index.html")


@router.api_route("/page/{name}", methods=READ)
@open_to_all()
async def send_file(request: Request, name: str) -> Response:
    """Return a file of the page."""
    try:
        found = await FILES.get_response(name, request.scope)
    except (HTTPException, ValueError):  # a name with a NUL is no path
        return problem_response(request, NO_SUCH_ROUTE, f"there is no {name[:80]!r} here", headers=HEADERS)
    found.headers.update(HEADERS)
    return found

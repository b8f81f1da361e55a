"""/docs: Swagger UI from an installed package, so that it needs no network, with a page and a theme of our own."""

import asyncio
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bots_service.api.problems import NO_SUCH_ROUTE, problem_response
from bots_service.api.security import ANY_SCOPE, About, allowed, guarded_router
from bots_service.retention import DOCS_CACHED_S

router = guarded_router(include_in_schema=False)

OURS = files("bots_service.api").joinpath("swagger")
SWAGGER = files("fastapi_offline").joinpath("static")
# name: where it is, and its media type
PARTS: dict[str, tuple[Traversable, str]] = {
    "start.js": (OURS, "text/javascript"),
    "theme.css": (OURS, "text/css"),
    "swagger-ui-bundle.js": (SWAGGER, "text/javascript"),
    "swagger-ui.css": (SWAGGER, "text/css"),
    "favicon.png": (SWAGGER, "image/png"),
}
# Swagger UI sets styles of single elements, and draws with data: images.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/openapi.json")
@allowed(*ANY_SCOPE, about=About.NONE)
async def show_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    # Made when it is first asked for, which takes 30 ms: other requests need not wait for that.
    return JSONResponse(await asyncio.to_thread(request.app.openapi))


@router.get("/docs")
@allowed(*ANY_SCOPE, about=About.NONE)
async def show_documentation() -> Response:
    """Return the page."""
    headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
    return Response(OURS.joinpath("index.html").read_bytes(), media_type="text/html", headers=headers)


@router.get("/docs/{name}")
@allowed(*ANY_SCOPE, about=About.NONE)
async def send_asset(request: Request, name: str) -> Response:
    """Return a part of the page."""
    if name not in PARTS:
        return problem_response(request, NO_SUCH_ROUTE, f"no file {name[:80]!r}")
    folder, media_type = PARTS[name]
    content = folder.joinpath(name).read_bytes()
    return Response(content, media_type=media_type, headers={"Cache-Control": f"max-age={DOCS_CACHED_S:.0f}"})

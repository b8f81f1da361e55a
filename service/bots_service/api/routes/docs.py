"""/docs: Swagger UI from an installed package, so that it needs no network."""

import asyncio
import base64
import hashlib
import re
from importlib.resources import files

from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bots_service.api.problems import NO_SUCH_ROUTE, problem_response
from bots_service.api.security import ANY_SCOPE, About, allowed, guarded_router
from bots_service.retention import DOCS_CACHED_S

router = guarded_router(include_in_schema=False)

INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
MEDIA_TYPES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}


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
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title="BOTS selector",
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url="docs/favicon.png",
    )
    page.headers.update({"Content-Security-Policy": policy_of(bytes(page.body)), "Referrer-Policy": "no-referrer"})
    return page


def policy_of(page: bytes) -> str:
    """Return the page's content security policy: it allows our own files and the page's inline scripts."""
    scripts = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in INLINE_SCRIPT.findall(page)]
    allowed_scripts = " ".join(["'self'", *(f"'sha256-{digest}'" for digest in scripts)])
    return (
        f"default-src 'none'; script-src {allowed_scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@router.get("/docs/{name}")
@allowed(*ANY_SCOPE, about=About.NONE)
async def send_asset(request: Request, name: str) -> Response:
    """Return a part of the page."""
    if name not in MEDIA_TYPES:
        return problem_response(request, NO_SUCH_ROUTE, f"no file {name[:80]!r}")
    content = files("fastapi_offline").joinpath("static", name).read_bytes()
    return Response(content, media_type=MEDIA_TYPES[name], headers={"Cache-Control": f"max-age={DOCS_CACHED_S:.0f}"})

"""The real application on a real database in a temporary folder."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import structlog

from bots_service.settings import Settings
from bots_service.wiring import build_app


@pytest.fixture(scope="session", autouse=True)
def _plain_tracebacks() -> Iterator[None]:
    """Without each local variable, which takes seconds to print."""
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, renderer]
    )
    yield
    structlog.reset_defaults()


@asynccontextmanager
async def serving(folder: Path, **settings: float | str) -> AsyncIterator[httpx.AsyncClient]:
    """Open the application on a folder, and yield a client that calls it in this process."""
    app = build_app(Settings.model_validate({"data_dir": folder, **settings}))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://bots") as http:
        yield http


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of an empty service."""
    async with serving(tmp_path) as client:
        yield client

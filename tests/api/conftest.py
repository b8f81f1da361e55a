"""The real application on a real database in a temporary folder."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import structlog
from fastapi import FastAPI

from bots_service.api.requests import state_of
from bots_service.settings import Settings
from bots_service.wiring import build_app
from tests.sqlite_files import migrated_file


@pytest.fixture(scope="session", autouse=True)
def _plain_tracebacks() -> Iterator[None]:
    """Without each local variable, which takes seconds to print."""
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, renderer]
    )
    yield
    structlog.reset_defaults()


class ClientInProcess(httpx.AsyncClient):
    """A client that calls an application in this process. line: where the application lets requests wait."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(transport=httpx.ASGITransport(app), base_url="http://bots")
        self.line = state_of(app).admission.training


@asynccontextmanager
async def serving(folder: Path, **settings: float | str) -> AsyncIterator[ClientInProcess]:
    """Open the application on a folder, and yield a client that calls it in this process."""
    values = Settings.model_validate({"data_dir": folder, **settings})
    if values.database_url is None:
        migrated_file(folder)
    app = build_app(values)
    async with app.router.lifespan_context(app), ClientInProcess(app) as http:
        yield http


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(tmp_path) as client:
        yield client

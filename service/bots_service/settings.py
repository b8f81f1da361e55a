"""The service's configuration, read from environment variables that begin with BOTS_."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from bots_service.errors import StorageUnavailableError
from bots_service.storage.sql.database import sql_url

PREFIX = "BOTS_"
GIB = 2**30
ADMIN_KEY = re.compile("[!-~]{16,512}")


class Settings(BaseSettings):
    """The service's configuration; the defaults fit one process on one machine."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8765, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    insecure: bool = Field(False, description="Listen beyond loopback although the service has no API keys.")
    data_dir: Path = Field(Path("data"), description="Folder of the SQLite file, if no database URL is set.")
    database_url: str | None = Field(None, description="sqlite:/// or postgresql:// URL; unset: sqlite in data_dir.")
    # Each has a thread: with more of them, the event loop waits longer for the interpreter.
    database_pool: int = Field(3, ge=2, le=128, description="Connections to PostgreSQL per process.")
    database_timeout_s: float = Field(5.0, gt=0, description="Longest wait for PostgreSQL before a request gets 503.")
    migrate_on_start: bool = Field(True, description="Migrate the tables before serving.")
    redis_url: str | None = Field(None, description="redis:// or rediss:// URL; unset: this process's memory.")
    redis_timeout_s: float = Field(0.5, gt=0, description="Longest wait for Redis before continuing without it.")
    admin_key: SecretStr | None = Field(None, description="An API key with all rights, for creating other keys.")
    request_timeout_s: float = Field(10.0, gt=0, description="Longest time for a select or report before it gets 503.")
    max_concurrent: int = Field(64, ge=1, description="Selects and reports in progress at a time, per process.")
    max_waiting: int = Field(256, ge=0, description="Selects and reports that may wait, per process; more get 503.")
    drain_s: float = Field(0.0, ge=0, description="Time between SIGTERM and the last accepted connection.")
    cache_bytes: int = Field(2 * GIB, ge=2**20, description="Bytes for open datasets, and the same again for states.")
    snapshot_every: int = Field(500, ge=1, description="Journal entries between two stored states of a run.")
    max_upload_bytes: int = Field(4 * GIB, ge=2**10, description="Largest NDJSON body.")
    max_tasks: int = Field(10_000_000, ge=1, description="Maximum number of tasks in a dataset.")
    log_format: Literal["console", "json"] = Field("console", description="Format of log lines.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Lowest level to log.")

    @field_validator("admin_key")
    @classmethod
    def _can_not_be_guessed(cls, key: SecretStr | None) -> SecretStr | None:
        """Reject a key that is easy to guess or that no header can hold. The message doesn't show it."""
        if key is not None and not ADMIN_KEY.fullmatch(key.get_secret_value()):
            raise ValueError(
                "must have 16 to 512 printable characters and no space; `openssl rand -hex 32` creates one"
            )
        return key

    @field_validator("database_url")
    @classmethod
    def _is_known(cls, url: str | None) -> str | None:
        """Reject what is no address of a database that the service knows. The message doesn't show it."""
        try:
            if url is not None:
                sql_url(url)
        except StorageUnavailableError as error:
            raise ValueError(str(error)) from error
        return url

    @property
    def sql_url(self) -> str:
        """Return the database's URL."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'bots.db'}"


READ_ELSEWHERE = {
    *("BOTS_URL", "BOTS_API_KEY", "BOTS_SPOOL", "BOTS_TRACEBACK"),  # by the client and the command line
    *("BOTS_DATASET", "BOTS_KEPT", "BOTS_KEEP_EVERY_S", "BOTS_VERSION"),  # by examples/clusters and docker-compose.yml
}


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a line for each variable that looks like a setting and is none; it names the nearest, but no value."""
    known = [f"{PREFIX}{name.upper()}" for name in Settings.model_fields] + sorted(READ_ELSEWHERE)
    unknown = sorted(name for name in environment if name.upper().startswith(PREFIX) and name.upper() not in known)
    return [f"{name} is no setting of BOTS; {_meant(name, known)}" for name in unknown]


def _meant(name: str, known: list[str]) -> str:
    # Without the prefix, which would make all of them alike.
    near = get_close_matches(name.upper().removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], n=1)
    return f"did you mean {PREFIX}{near[0]}?" if near else "`bots serve --help` and docs/cli.md name the settings"

"""What can be configured, by environment variables that begin with BOTS_."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

GIB = 2**30


class Settings(BaseSettings):
    """The service's configuration; every default is what one process on one machine wants."""

    model_config = SettingsConfigDict(env_prefix="BOTS_", frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on; loopback unless told otherwise.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    insecure: bool = Field(False, description="Listen beyond loopback although no keys guard the service.")
    data_dir: Path = Field(Path("data"), description="Where the database file lies when no database is named.")
    database_url: str | None = Field(None, description="SQLAlchemy URL; unset: sqlite in data_dir.")
    cache_bytes: int = Field(2 * GIB, ge=2**20, description="Memory for open datasets, and as much again for states.")
    snapshot_every: int = Field(500, ge=1, description="Journal entries between two stored states of a run.")
    max_upload_bytes: int = Field(4 * GIB, ge=2**10, description="Largest NDJSON or Parquet body.")
    log_format: Literal["console", "json"] = Field("console", description="How log lines are written.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is written.")

    @property
    def sql_url(self) -> str:
        """Return the database's URL."""
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'bots.db'}"

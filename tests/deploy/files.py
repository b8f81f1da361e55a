"""The files that ship the service, read."""

import io
import re
from functools import cache
from pathlib import Path
from typing import Any

import crossplane
import pytest
import yaml
from dockerfile_parse import DockerfileParser

from bots_service.settings import Settings

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy/kubernetes"
NGINX = ROOT / "deploy/nginx/nginx.conf"
SETTINGS = {f"BOTS_{name.upper()}" for name in Settings.model_fields}

GIB = 2**30
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": GIB, "Ki": 2**10, "Mi": 2**20, "Gi": GIB}


def size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([A-Za-z]*)", text)
    assert found, text
    return int(found[1]) * UNITS[found[2]]


def seconds(text: str) -> float:
    return float(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


@cache
def dockerfile() -> list[dict[str, Any]]:
    content = (ROOT / "Dockerfile").read_text("utf-8")
    read = DockerfileParser(fileobj=io.BytesIO(content.encode()))
    return [each for each in read.structure if each["instruction"] != "COMMENT"]


@cache
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))


@cache
def environment_example() -> dict[str, str]:
    """Return the names of .env.example with their values."""
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@cache
def resources() -> dict[str, dict[str, Any]]:
    named = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text("utf-8"))["resources"]
    read = [document for name in named for document in yaml.safe_load_all((KUBERNETES / name).read_text("utf-8"))]
    assert len({each["kind"] for each in read}) == len(read)
    return {each["kind"]: each for each in read}


@cache
def nginx() -> list[dict[str, Any]]:
    read = crossplane.parse(str(NGINX), strict=True)
    assert read["status"] == "ok", read["errors"]
    return read["config"][0]["parsed"]


def directives(block: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    found = [each for each in block if each["directive"] == name]
    return found + [deeper for each in block for deeper in directives(each.get("block", []), name)]


def settings_from(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the settings that the service reads from these variables, and from nothing else."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    nothing_more: dict[str, Any] = {}
    return Settings(**nothing_more)

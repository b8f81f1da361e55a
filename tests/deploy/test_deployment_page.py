"""docs/deployment.md and docs/cli.md: the numbers and names in them are those of the code."""

import re

import pytest

from tests.deploy.files import ROOT, SETTINGS, environment_example

NAMES = re.compile(r"BOTS_[A-Z_]*[A-Z]")
OF_THE_CLIENT = {"BOTS_URL", "BOTS_API_KEY"}
OF_COMPLETION = {"BOTS_COMPLETE"}  # which typer reads, to complete commands in a shell
OF_COMPOSE = {"BOTS_VERSION"}


def test_every_setting_is_told_in_the_command_lines_page():
    named = set(NAMES.findall((ROOT / "docs/cli.md").read_text("utf-8")))
    assert named - OF_THE_CLIENT - OF_COMPLETION == SETTINGS


@pytest.mark.parametrize(
    "path", ["docs/deployment.md", "Dockerfile", "docker-compose.yml", ".env.example", "deploy/nginx/nginx.conf"]
)
def test_the_variables_that_are_named_exist(path):
    named = set(NAMES.findall((ROOT / path).read_text("utf-8")))
    assert named - OF_COMPOSE - OF_THE_CLIENT <= SETTINGS | set(environment_example())

"""A mix by the command line: set, shown, refused, ended."""

from itertools import count

import pytest

from bots_client import Task

NAMES = (f"mixed-{number}" for number in count())


@pytest.fixture
def pool(client):
    """A dataset of math and code."""
    name = next(NAMES)
    client.create_dataset(
        name, [Task(f"{tag}-{number}", tags=[tag]) for tag in ("math", "code") for number in range(9)]
    )
    return name


def lines_of(text):
    return {line.split("  ")[0].strip(): line.split("  ")[-1].strip() for line in text.splitlines() if line.strip()}


def test_a_mix_is_set_shown_changed_and_ended(bots, pool):
    made = bots("runs", "create", pool, "m", "--mix", "math=3", "--mix", "code=1", "--json").json
    assert made["settings"]["mix"] == {"code": 1, "math": 3}
    shown = lines_of(bots.ok("runs", "show", pool, "m"))
    assert shown["mix"] == "code 1, math 3"
    assert "math 75% (owed 0.0, given 0)" in bots.ok("runs", "show", pool, "m")
    assert lines_of(bots.ok("runs", "set", pool, "m", "--mix", "none"))["mix"] == "-"


@pytest.mark.parametrize("option", ["math", "math=", "=3", "math=3,4", "math=1:x"])
def test_a_weight_that_can_not_be_read_is_refused_with_an_example(bots, pool, option):
    refused = bots("runs", "create", pool, "m", "--mix", option)
    assert refused.code == 2
    assert "math=3" in refused.err

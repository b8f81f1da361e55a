"""Settings: their defaults, and only possible ones pass."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core.belief import KINDS
from bots_service.core.run_settings import BELIEFS, RunSettings, settings_asked, settings_from
from bots_service.errors import InvalidSettingsError
from bots_service.retention import LONGEST_LEASE_S

LIMITS = {
    "forgetting": (0, 1),
    "implicit_weight": (0, 1),
    "rollouts_per_task": (1, 1e5),
    "target": (0, 1),
    "capability_momentum": (0, 1),
    "lease_seconds": (1, LONGEST_LEASE_S),
}


# Each with another value than its default.
OF_BOTS: dict[str, Any] = {
    "forgetting": 0.5,
    "implicit_weight": 0.9,
    "prior": (3.0, 2.0),
    "capability": "paper",
    "capability_momentum": 0.1,
}


def test_nothing_said_gives_the_tracker_and_a_pass():
    settings = settings_from({})
    assert settings == RunSettings()
    assert (settings.belief, settings.strategy) == ("tracker", "pass")


def test_bots_has_the_defaults_of_the_paper_but_for_how_capability_and_rollouts_are_found():
    settings = settings_from({"belief": "bots"})
    assert settings.strategy == "thompson"
    assert (settings.forgetting, settings.implicit_weight) == (0.1, 0.1)
    assert (settings.capability, settings.rollouts_per_task) == ("least_squares", None)
    assert (settings.target, settings.prior, settings.capability_momentum) == (0.5, (1, 1), 0.9)


@given(st.sampled_from(sorted(LIMITS)), st.data())
def test_numbers_within_their_range_pass_and_come_back_from_json(name, data):
    low, high = LIMITS[name]
    value = data.draw(st.sampled_from([low, high]) | st.floats(low, high))
    settings = settings_from({"belief": "bots", name: value})
    assert getattr(settings, name) == value
    assert type(getattr(settings, name)) is float
    assert settings_from(json.loads(json.dumps(structs.asdict(settings)))) == settings


WRONG = ["below", "above", math.nan, math.inf, -math.inf, True, "0.5", [0.5], {}, 10**400]
REFUSED = [(name, wrong) for name in sorted(LIMITS) for wrong in WRONG]
REFUSED += [(name, None) for name in sorted(LIMITS) if name != "rollouts_per_task"]  # None: learned


@pytest.mark.parametrize(("name", "wrong"), REFUSED)
def test_a_number_out_of_range_is_refused_by_name(name, wrong):
    low, high = LIMITS[name]
    value = {"below": low - 1e-9, "above": high + 1e-3}.get(wrong, wrong) if isinstance(wrong, str) else wrong
    with pytest.raises(InvalidSettingsError) as refused:
        settings_from({name: value})
    assert [flaw.where for flaw in refused.value.flaws] == [(name,)]


IMPOSSIBLE: dict[str, list[Any]] = {
    "strategy": ["greedy", None, ["uniform"]],
    "capability": ["quotient", None],
    "seed": [-1, 2**63, 1.0, True, None],
    "tasks_per_step": [0, 10**6 + 1, 2.5],
    "prior": [1, [1], [1, 1, 1], "11", [0, 1], [1, 1e7], [1, math.nan], [True, 1], None, {0: 1, 1: 1}],
    "reward_range": [[1, 0], [1, 1], [0, 5e-324], [0, 2e9], [math.nan, 1], {"low": 0}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, some in IMPOSSIBLE.items() for value in some])
def test_other_settings_that_are_not_possible_are_refused_by_name(name, value):
    with pytest.raises(InvalidSettingsError) as refused:
        settings_from({name: value})
    assert [flaw.where for flaw in refused.value.flaws] == [(name,)]


def test_pairs_become_pairs_of_floats():
    settings = settings_from({"belief": "bots", "prior": [1, 2], "reward_range": (-1, 1)})
    assert (settings.prior, settings.reward_range) == ((1.0, 2.0), (-1.0, 1.0))
    assert {type(value) for value in (*settings.prior, *settings.reward_range)} == {float}


@pytest.mark.parametrize("given", [{}, {"belief": "tracker"}, {"strategy": "thompson"}])
def test_settings_that_the_tracker_would_ignore_are_refused_at_once_with_what_to_do(given: dict[str, Any]):
    with pytest.raises(InvalidSettingsError) as refused:
        settings_asked({**given, **OF_BOTS})
    todo = "leave it out, or create a run with the belief 'bots'"
    assert [(flaw.where, flaw.what) for flaw in refused.value.flaws] == [
        ((name,), f"the belief 'tracker' has no {name}; {todo}") for name in OF_BOTS
    ]
    bots = settings_asked({"belief": "bots", **OF_BOTS})
    assert {name: getattr(bots, name) for name in OF_BOTS} == OF_BOTS


@pytest.mark.parametrize("name", OF_BOTS)
def test_a_run_of_the_tracker_can_t_be_given_what_it_would_ignore_later(name: str):
    run = settings_asked({"seed": 3})
    with pytest.raises(InvalidSettingsError, match="invalid settings"):
        settings_asked({name: OF_BOTS[name]}, run)
    assert settings_asked({name: getattr(run, name)}, run) == run  # as it was read


def test_what_was_stored_once_can_be_read_whatever_belief_it_is_for():
    assert settings_from({"belief": "tracker", **OF_BOTS}).forgetting == OF_BOTS["forgetting"]


def test_the_settings_of_a_belief_are_settings():
    assert BELIEFS.keys() == KINDS.keys()
    for kind in BELIEFS.values():
        assert set(kind.own) <= set(RunSettings.__struct_fields__)
    assert set(BELIEFS["bots"].own) == set(OF_BOTS)


def test_every_flaw_is_told_at_once():
    with pytest.raises(InvalidSettingsError) as refused:
        settings_from({"forgeting": 0.1, "target": 2, "seed": "a"})
    assert {flaw.where for flaw in refused.value.flaws} == {("forgeting",), ("target",), ("seed",)}


def test_a_run_has_only_the_settings_that_its_kind_of_belief_reads():
    of_bots = {"forgetting", "implicit_weight", "prior", "capability", "capability_momentum"}
    bots, tracker = (settings_from({"belief": belief, "target": 0.6}) for belief in ("bots", "tracker"))
    assert bots.in_use().given() == structs.asdict(bots)
    assert tracker.in_use().given() == {
        name: value for name, value in structs.asdict(tracker).items() if name not in of_bots
    }

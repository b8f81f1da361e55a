"""What each kind of belief estimates about the model in training, by name; and which settings that depends on."""

import numpy as np
import pytest

from bots_service.core.belief.tracker import TrackerBelief
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from tests.core.journals import pool_of, replay, report_of

PAIR = pool_of((0.25, 0.75), (0.5, 0.875))
REPORTS = [report_of((0, 3.0, 13.0)), report_of((1, 9.0, 7.0))]


def test_bots_estimates_the_capability_once_a_step_has_closed():
    before, after = (replay(PAIR, reports, settings_from({"belief": "bots"})).belief for reports in ([], REPORTS))
    assert before.estimates(PAIR) == {}
    assert after.estimates(PAIR) == {"capability": after.capability}


@pytest.mark.parametrize("reports", [[], REPORTS], ids=["at first", "after two steps"])
def test_the_tracker_names_each_effect_and_each_learned_variance(reports):
    carried = np.array([1, 2], np.uint32)
    pool = Pool(PAIR.references, PAIR.profile_of, offset_tags=("unknown", "math"), carried=carried)
    belief = replay(pool, reports, settings_from({"belief": "tracker"})).belief
    assert isinstance(belief, TrackerBelief)
    ability, weak, strong, unknown, of_unknown, of_math, velocity = belief.effects.mean.tolist()
    untried, residual, drift = belief.variances.estimates
    assert belief.estimates(pool) == {
        "ability": ability,
        "slope_1": weak,
        "slope_2": strong,
        "unknown_offset": unknown,
        "tag_offset_unknown": of_unknown,  # of a tag of this name
        "tag_offset_math": of_math,
        "velocity": velocity,
        "untried_variance": untried,
        "residual_drift": residual,
        "ability_drift": drift,
    }


def test_without_references_and_tags_the_tracker_has_no_slope_and_no_tag():
    pool = pool_of((), ())
    estimates = replay(pool, [report_of((0, 8.0, 8.0))], settings_from({"belief": "tracker"})).belief.estimates(pool)
    assert list(estimates)[:3] == ["ability", "unknown_offset", "velocity"]
    assert not [name for name in estimates if name.startswith(("slope", "tag"))]

"""Which tags the verifier guard watches, and how likely a belief takes groups that all fail."""

import numpy as np
import pytest

from bots_service.core.arrays import frozen
from bots_service.core.belief.betas import Betas
from bots_service.core.belief.logit_normals import LogitNormals
from bots_service.core.guard.watched_tags import MOST_WATCHED, watched_tags


def test_offset_tags_are_watched_first_and_then_those_that_tasks_carried_first():
    tags = {f"tag {number:03}": frozen(np.array([200 - number], np.int32)) for number in range(150)}
    tags["nobody's"] = frozen(np.empty(0, np.int32))
    found = watched_tags(("tag 007",), tags, 201)
    assert len(found.names) == MOST_WATCHED
    assert found.names[:2] == ("tag 007", "tag 149")
    tasks = np.arange(201, dtype=np.int32)
    for number in (7, 149, 60, 30):
        tag = f"tag {number:03}"
        assert np.flatnonzero(found.carry(tasks, tag)).tolist() == [200 - number]
        assert found.bits_of(tasks)[200 - number] == found.bit_of(tag)
        assert list(found.named(found.bit_of(tag))) == [tag]
    assert found.bits_of(tasks)[0] == found.bit_of("nobody's") == 0
    assert not found.carry(tasks, "nobody's").any()
    assert list(found.named(0b101)) == ["tag 007", "tag 148"]
    assert watched_tags((), {}, 3).bits_of(tasks[:3]) == [0, 0, 0]


def test_tags_that_come_later_change_no_number():
    tags = {"a": frozen(np.array([1], np.int32)), "b": frozen(np.array([0, 1], np.int32))}
    later = {**tags, "b": frozen(np.array([0, 1, 2, 3], np.int32)), "0": frozen(np.array([2, 3], np.int32))}
    before, after = watched_tags((), tags, 2), watched_tags((), later, 4)
    assert after.names[:2] == before.names == ("b", "a")
    np.testing.assert_array_equal(after.carried[0][:2], before.carried[0])


@pytest.mark.parametrize("rollouts", [1, 4, 16])
def test_the_chance_that_all_rollouts_fail_is_that_of_the_distribution(rollouts):
    counts, p = np.full(3, rollouts), np.linspace(0, 1, 200_001)[1:-1]
    betas = Betas(np.array([1.0, 3.0, 9.0]), np.array([1.0, 5.0, 2.0]), (1.0, 1.0))
    for place, (alpha, beta) in enumerate(((0.5, 0.5), (2.5, 4.5), (8.5, 1.5))):
        density = p ** (alpha - 1) * (1 - p) ** (beta - 1)
        wanted = (density * (1 - p) ** rollouts).sum() / density.sum()
        assert betas.all_fail(counts)[place] == pytest.approx(wanted, rel=0.01, abs=1e-6)
    theta = np.linspace(-40, 40, 200_001)
    normals = LogitNormals(np.array([-1.0, 0.0, 2.0]), np.array([0.5, 1.0, 4.0]))
    for place, (mean, variance) in enumerate(((-1.0, 0.5), (0.0, 1.0), (2.0, 4.0))):
        density = np.exp(-((theta - mean) ** 2) / (2 * variance))
        wanted = (density / (1 + np.exp(theta)) ** rollouts).sum() / density.sum()
        assert normals.all_fail(counts)[place] == pytest.approx(wanted, rel=0.05)

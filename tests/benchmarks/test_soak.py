"""What the watch over memory makes of what it saw."""

import pytest

from benchmarks.soak import thirds


def test_each_third_tells_its_ends_and_its_growth_in_ten_minutes():
    flat, rising, falling = [100.0] * 4, [100.0, 101.0, 102.0, 103.0], [103.0, 102.0, 101.0, 100.0]
    seen = [(60.0 * minute, mib) for minute, mib in enumerate(flat + rising + falling)]
    told = [number for third in thirds(seen) for number in third]
    assert told == pytest.approx([100, 100, 0, 100, 103, 10, 103, 100, -10], abs=1e-9)

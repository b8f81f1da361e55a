"""The benchmarks run; what they measure is another matter."""

import pytest

from benchmarks.__main__ import measured
from benchmarks.recovery import count_lost
from tests.sizes import size

# The last two start clusters, as tests/system does: 15 s of the processor, and 30 s.
PARTS = ["kernels", "service", "recovery", "against"][: size(2, 4)]


@pytest.mark.parametrize("part", PARTS)
def test_a_quick_run_measures_something_in_each_row(part):
    rows = [line for line in measured(part, quick=True).splitlines() if line.startswith("| ")]
    assert len(rows) > 2
    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|"))


def test_a_report_is_lost_if_a_later_selection_lacks_it():
    assert count_lost({"a": [1, 2, 3], "b": [7]}, {"a": 1, "b": 7}) == 2

"""Tests side by side give no port to two servers."""

import subprocess
import sys

import pytest

from tests.ports import PORTS, free_port, release, reserve

ELSEWHERE = "import sys; from tests.ports import reserve; sys.exit(not reserve(int(sys.argv[1])))"


@pytest.fixture
def port():
    taken = free_port()
    yield taken
    release(taken)


def is_free_elsewhere(port: int) -> bool:
    """Return whether another process can have a port."""
    return subprocess.run([sys.executable, "-c", ELSEWHERE, str(port)], check=False).returncode == 0


def test_a_port_that_is_taken_is_nobody_elses_though_nobody_listens(port: int):
    assert port in PORTS
    assert not reserve(port)
    assert not is_free_elsewhere(port)


def test_a_port_that_was_given_back_is_free():
    port = free_port()
    release(port)
    assert is_free_elsewhere(port)
    assert reserve(port)
    release(port)


def test_a_port_outside_the_range_is_refused():
    assert not reserve(PORTS.stop)

"""Giving up in time."""

import threading
import time

import pytest

from bots_client import DeadlineExceededError
from bots_client._resilience.deadline import call_within


def test_what_hangs_is_given_up():
    end = threading.Event()
    begun = time.monotonic()

    with pytest.raises(DeadlineExceededError):
        call_within(end.wait, 0.05, asked="GET /version")

    assert time.monotonic() - begun < 30
    end.set()


def test_without_a_thread_to_be_had_the_call_is_made_all_the_same(monkeypatch):
    def fail(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)

    assert call_within(lambda: 7, 60, asked="GET /version") == 7

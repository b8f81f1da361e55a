"""When it is worth asking again."""

import threading

import pytest

from bots_client._resilience.breaker import LONGEST_PAUSE_S, Breaker


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def pauses(breaker, clock, failures):
    """Return how long the breaker keeps quiet after each of some failures."""
    seen = []
    for _ in range(failures):
        breaker.failed()
        begun = clock.now
        while not breaker.allows():
            clock.now += 0.125
        seen.append(clock.now - begun)
    return seen


def test_all_calls_pass_until_one_fails(clock):
    breaker = Breaker(clock)

    assert breaker.allows()
    assert breaker.allows()
    breaker.failed()
    assert not breaker.allows()


def test_looking_whether_it_is_too_early_uses_up_no_turn(clock):
    breaker = Breaker(clock)
    seen = [breaker.is_quiet]
    breaker.failed()
    seen.append(breaker.is_quiet)
    clock.now += LONGEST_PAUSE_S
    seen += [breaker.is_quiet, breaker.allows(), breaker.is_quiet]

    assert seen == [False, True, False, True, True]


def test_pauses_double_up_to_a_minute(clock):
    assert pauses(Breaker(clock, rng=lambda: 1.0), clock, 9) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_pauses_are_spread_over_half_their_length(clock):
    assert pauses(Breaker(clock, rng=lambda: 0.0), clock, 3) == [0.5, 1, 2]
    assert pauses(Breaker(clock, rng=lambda: 1.0), clock, 3) == [1, 2, 4]


def test_a_pause_is_as_long_as_the_service_asks_but_never_longer_than_the_longest(clock):
    breaker = Breaker(clock)

    breaker.failed(retry_after_s=7.0)
    clock.now += 6.9
    assert not breaker.allows()
    clock.now += 0.2
    assert breaker.allows()
    breaker.failed(retry_after_s=1e9)
    clock.now += LONGEST_PAUSE_S
    assert breaker.allows()


def test_one_thread_of_many_tries_after_a_pause(clock):
    breaker = Breaker(clock)
    breaker.failed()
    clock.now += LONGEST_PAUSE_S
    told = []

    threads = [threading.Thread(target=lambda: told.append(breaker.allows())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert told.count(True) == 1


def test_a_success_lets_all_calls_through_and_forgets_the_failures(clock):
    breaker = Breaker(clock, rng=lambda: 1.0)
    pauses(breaker, clock, 5)

    assert breaker.succeeded()
    assert not breaker.succeeded()
    assert breaker.allows()
    assert breaker.failed()
    assert not breaker.failed()
    breaker.succeeded()
    assert pauses(breaker, clock, 2) == [1, 2]


def test_calls_that_were_under_way_together_fail_as_one(clock):
    breaker = Breaker(clock, rng=lambda: 1.0)

    assert [breaker.failed() for _ in range(64)] == [True] + [False] * 63

    clock.now += 1
    assert breaker.allows()
    assert pauses(breaker, clock, 1) == [2]

"""Which calls are let through, and when the service is looked for."""

from bots_client._resilience.breaker import Breaker


def test_all_calls_pass_until_one_fails_and_again_once_the_service_is_found():
    breaker = Breaker()
    seen = [breaker.is_open]
    breaker.failed()
    seen.append(breaker.is_open)
    breaker.found()
    seen.append(breaker.is_open)

    assert seen == [False, True, False]


def test_pauses_double_up_to_a_minute():
    breaker = Breaker(rng=lambda: 1.0)
    breaker.failed()

    assert [breaker.next_pause_s() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_pauses_are_spread_over_half_their_length():
    assert [breaker.next_pause_s() for breaker in [Breaker(rng=lambda: 0.0)] for _ in range(3)] == [0.5, 1, 2]
    assert [breaker.next_pause_s() for breaker in [Breaker(rng=lambda: 1.0)] for _ in range(3)] == [1, 2, 4]


def test_a_pause_is_as_long_as_the_service_asks_but_never_longer_than_the_longest():
    breaker = Breaker()
    pauses = []
    for asked_for_s in (7.0, 1e9):
        breaker.failed(asked_for_s)
        pauses.append(breaker.next_pause_s())

    assert pauses == [7, 60]


def test_each_change_is_told_once():
    breaker = Breaker()

    assert [breaker.failed() for _ in range(64)] == [True] + [False] * 63  # calls that were under way together
    assert [breaker.found() for _ in range(2)] == [True, False]


def test_a_service_that_is_found_but_fails_the_next_call_is_looked_for_less_and_less():
    breaker = Breaker(rng=lambda: 1.0)
    pauses = []
    for _ in range(4):
        breaker.failed()
        breaker.succeeded()  # of a call that was under way: it says nothing of those that come
        pauses.append(breaker.next_pause_s())
        breaker.found()

    assert pauses == [1, 2, 4, 8]


def test_pauses_are_short_again_after_a_call_that_succeeded():
    breaker = Breaker(rng=lambda: 1.0)
    breaker.failed()
    pauses = [breaker.next_pause_s() for _ in range(3)]
    breaker.found()
    breaker.succeeded()
    breaker.failed()

    assert [*pauses, breaker.next_pause_s()] == [1, 2, 4, 1]

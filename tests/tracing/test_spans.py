"""Parts of a request: what is added up, where, and what becomes of parts that belong to none."""

import asyncio
from contextlib import nullcontext

import pytest
from prometheus_client import CollectorRegistry, Histogram

from bots_service.spans import Span, followed, tell_request, working


@pytest.fixture
def histogram() -> Histogram:
    return Histogram("part", "Of a test.", registry=CollectorRegistry())


def observed(histogram: Histogram) -> float:
    """How many values it saw."""
    (family,) = histogram.collect()
    (count,) = [one.value for one in family.samples if one.name == "part_count"]
    return count


def test_parts_of_one_name_add_up_and_count_in_the_one_around_them():
    with working(None) as work, Span("outer"):
        for _ in range(3):
            with Span("inner"):
                pass
        once = dict(work.seconds)
    assert work.seconds.keys() == {"outer", "inner"}
    assert 0 < once["inner"] <= work.seconds["outer"]


@pytest.mark.parametrize("failing", [False, True])
def test_a_part_is_observed_whatever_became_of_it_and_with_no_request_too(histogram: Histogram, failing: bool):
    def part() -> None:
        with Span("part", histogram) as span:
            span.tell(count=1)
            if failing:
                raise KeyError

    def part_of_a_request() -> None:
        with working(None):
            part()

    for number, work in enumerate((part, part_of_a_request), start=1):
        with pytest.raises(KeyError) if failing else nullcontext():
            work()
        assert observed(histogram) == number


async def test_requests_side_by_side_keep_their_parts_apart():
    async def request(name: str) -> set[str]:
        with working(None) as work:
            tell_request({"run": name})
            with Span(name):
                await asyncio.sleep(0)
            assert work.facts == {"run": name}
            return set(work.seconds)

    first, second = await asyncio.gather(request("a"), request("b"))
    assert (first, second) == ({"a"}, {"b"})
    tell_request({"run": "nobody's"})


async def test_a_future_is_a_part_until_it_is_done_however_it_ends():
    loop = asyncio.get_running_loop()
    good, bad, given_up, nobodys = (loop.create_future() for _ in range(4))
    with working(None) as work:
        for name, future in (("good", good), ("bad", bad), ("given up", given_up)):
            assert followed(name, future) is future
    assert followed("nobody's", nobodys) is nobodys
    assert work.seconds == {}
    good.set_result(1)
    bad.set_exception(KeyError())
    given_up.cancel()
    nobodys.set_result(1)
    await asyncio.wait({good, bad, given_up, nobodys})
    assert isinstance(bad.exception(), KeyError)
    assert work.seconds.keys() == {"good", "bad", "given up"}

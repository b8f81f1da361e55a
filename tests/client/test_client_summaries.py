"""What summaries of runs are made of."""

from datetime import UTC, datetime

from bots_client import Gain, Overview, OverviewTotals, RefusedReports, RunSummary, RunVerdict, TagComparison, TagSums
from tests.client.answers import OVERVIEW_TOTALS, SUMMARY, TAG
from tests.client.scripted_server import answer

NOON = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUN = RunSummary(
    **{
        **SUMMARY,
        "created_at": NOON,
        "last_step_at": NOON,
        "trend": (None, 0.25, 0.5),
        "gain": Gain(**SUMMARY["gain"]),
        "verdict": RunVerdict(**SUMMARY["verdict"]),
        "refused": RefusedReports(**{**SUMMARY["refused"], "last_at": NOON}),
    }
)


def test_an_overview_is_read_in_full_and_is_a_table_of_its_runs(serve, connect):
    told = {"runs": [SUMMARY], "matching": 7, "totals": OVERVIEW_TOTALS, "next_cursor": "c"}

    found = connect(serve(answer(told))).overview()

    assert found == Overview(runs=(RUN,), matching=7, totals=OverviewTotals(**OVERVIEW_TOTALS), next_cursor="c")
    assert found.to_pandas()["gain.factor"].tolist() == [1.25]


def test_a_summary_is_read_in_full(serve, connect):
    assert connect(serve(answer(SUMMARY))).summary("guru") == RUN


def test_tags_are_read_in_full(serve, connect):
    found = connect(serve(answer({"first_step": 3, "last_step": 9, "tags": [TAG]}))).tags("guru")

    assert found == TagComparison(first_step=3, last_step=9, tags=(TagSums(**TAG),))

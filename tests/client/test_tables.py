"""Lists and charts as pandas frames."""

import sys
from datetime import datetime, timezone
from typing import Any

import pandas
import pytest

from bots_client import (
    Client,
    Curve,
    CurvePoint,
    Fork,
    JournalEntry,
    Lease,
    Leases,
    Listing,
    MixShare,
    Run,
    SelectedTask,
    Selection,
)
from tests.client.answers import HISTORY_STEP, page
from tests.client.scripted_server import answer

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)  # noqa: UP017 - the client runs on Python 3.10
EARLIER = HISTORY_STEP | {"step": 1, "time": "2026-01-02T03:04:05Z", "capability": 0.5, "rollouts": 64}
LATER = EARLIER | {"step": 2, "capability": None, "time": None}


def test_a_history_of_two_pages_is_one_frame(serve):
    server = serve(answer(page("history", EARLIER, cursor="c1")), answer(page("history", LATER)))
    with Client(server.url) as bots:
        frame = bots.history("guru").to_pandas()
    assert list(frame["step"]) == [1, 2]
    assert frame["time"][0] == MOMENT
    assert pandas.isna(frame["time"][1])
    assert frame["capability"].dtype == "float64"
    assert (frame["rollouts"].sum(), frame["late"].dtype) == (128, "int64")


def test_a_run_s_mix_is_a_list_of_objects():
    share = MixShare(tag="math", share=0.75, owed=7.5, given=8)
    run = Run(dataset="guru", run="r", step=4, seq=9, mix=(share,), forked_from=Fork(run="other", step=3, seq=4))
    frame = Listing(Run, (each for each in [run])).to_pandas()
    assert frame.loc[0, "mix"] == (share,)
    assert frame.loc[0, "forked_from.run"] == "other"


def test_charts_leases_and_selections_are_tables():
    curve = Curve(points=(CurvePoint(first_step=1, last_step=4, brier=0.2), CurvePoint(first_step=5, last_step=8)))
    leases = Leases(leased=2, leases=(Lease(expires_at=MOMENT, tasks=2, first=("a", "b")),))
    selection = Selection(selection_id="s", dataset="guru", run="r", tasks=(SelectedTask(id="a", mean=0.5),))
    assert list(curve.to_pandas()["last_step"]) == [4, 8]
    assert list(leases.to_pandas()["expires_at"]) == [MOMENT]
    assert leases.to_pandas()["first"][0] == ("a", "b")
    assert selection.to_pandas().loc[0, "id"] == "a"


@pytest.mark.parametrize("kind", [Run, JournalEntry, CurvePoint])
def test_no_rows_give_the_same_columns_and_types(kind):
    nothing: Listing = Listing(kind, (row for row in list[Any]()))
    frame = nothing.to_pandas()
    assert "datetime64" in str(frame[[name for name in frame if "time" in name or "_at" in name]].dtypes.iloc[0])
    assert len(frame) == 0


def test_missing_pandas_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas\(\) needs pandas.*pip install pandas .*\[pandas\]"):
        Curve(points=()).to_pandas()

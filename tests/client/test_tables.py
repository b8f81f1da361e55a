"""Lists and charts as pandas and Arrow tables."""

import json
import sys
from datetime import datetime, timezone
from typing import Any

import pandas
import pyarrow
import pytest

from bots_client import (
    Client,
    Curve,
    CurvePoint,
    JournalEntry,
    Lease,
    Leases,
    Listing,
    Run,
    SelectedTask,
    Selection,
)
from tests.client.answers import BELIEF, HISTORY_STEP, RUN, page
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
    assert (frame["rollouts"].sum(), frame["late"].dtype) == (128, "Int64")


def test_tasks_are_an_arrow_table(serve):
    one, other = {"alpha": 2.5, "last_step": None, "tags": ["math"]}, {"last_step": 7, "tags": ["math"]}
    with Client(serve(answer(page("tasks", BELIEF | one, BELIEF | other))).url) as bots:
        table = bots.tasks("guru").to_arrow()
    tried = ["attempts", "successes", "visits", "last_step", "aborts"]
    believed = ["id", "alpha", "beta", "mean", "interval", "effective", "variance"]
    assert table.column_names == [*believed, *tried, "segment", "tags"]
    assert table["alpha"].to_pylist() == [2.5, None]
    assert table["last_step"].to_pylist() == [None, 7]
    assert table["tags"].to_pylist() == [["math"], ["math"]]
    assert table["interval"].type == pyarrow.list_(pyarrow.float64())
    assert not table.schema.field("mean").nullable


def test_objects_are_json_and_their_fields_columns(serve):
    share = {"tag": "math", "share": 0.75, "owed": 7.5, "given": 8}
    run = RUN | {"mix": [share], "forked_from": {"run": "other", "step": 3, "seq": 4}}
    with Client(serve(answer(page("runs", run))).url) as bots:
        frame = bots.runs("guru").to_pandas()
    assert frame.loc[0, "forked_from.run"] == "other"
    assert json.loads(frame.loc[0, "mix"]) == [share]
    assert json.loads(frame.loc[0, "settings.mix"]) == {}


def test_charts_leases_and_selections_are_tables():
    curve = Curve(points=(CurvePoint(first_step=1, last_step=4, brier=0.2), CurvePoint(first_step=5, last_step=8)))
    leases = Leases(leased=2, leases=(Lease(expires_at=MOMENT, tasks=2, first=("a", "b")),))
    selection = Selection(selection_id="s", dataset="guru", run="r", tasks=(SelectedTask(id="a", mean=0.5),))
    assert list(curve.to_pandas()["last_step"]) == [4, 8]
    assert curve.to_arrow()["brier"].to_pylist() == [0.2, None]
    assert leases.to_arrow()["expires_at"].to_pylist() == [MOMENT]
    assert list(leases.to_pandas()["first"][0]) == ["a", "b"]
    assert selection.to_pandas().loc[0, "id"] == "a"


@pytest.mark.parametrize("kind", [Run, JournalEntry, CurvePoint])
def test_no_rows_give_the_same_columns_and_types(kind):
    nothing: Listing = Listing(kind, (row for row in list[Any]()))
    frame, table = nothing.to_pandas(), nothing.to_arrow()
    assert list(frame.columns) == table.column_names
    assert "datetime64" in str(frame[[name for name in frame if "time" in name or "_at" in name]].dtypes.iloc[0])
    assert table.num_rows == len(frame) == 0


@pytest.mark.parametrize(
    ("package", "method", "extra"),
    [("pandas", "to_pandas", "pandas"), ("pyarrow", "to_pandas", "pandas"), ("pyarrow", "to_arrow", "arrow")],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, package, method, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{method}\(\) needs {package}.*pip install {package} .*\[{extra}\]"):
        getattr(Curve(points=()), method)()

"""A disk that holds no more."""

import sqlite3

from bots_client import Outcome
from bots_client._client import report_call
from bots_client._resilience.spool import Spool
from tests.client.resilience.worlds import IDS, journalled, spool_in
from tests.serving import NOWHERE

SOON_S = 20.0  # an upper bound for what takes well under a second, on a machine that is busy


def test_a_full_disk_costs_the_report_and_says_so(connect, caplog):
    bots = connect(NOWHERE, report_deadline_s=0.1)
    spool_in(bots).file.mkdir()

    assert bots.report("guru", [Outcome.counts("t1", 1, 2)]) is None

    assert bots.health.lost == 1
    assert "a report is lost" in caplog.text


def test_a_disk_that_fills_up_while_reports_wait_costs_none_once_the_service_is_back(
    connect, service, dataset, monkeypatch
):
    bots = connect(service)
    call = report_call(dataset, [Outcome.counts("t0", 1, 2)], run="default", selection=None, close_step=True)
    spool_in(bots, dataset).add(call, closes=True)

    def fail(*_arguments, **_options):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Spool, "add", fail)

    assert bots.report(dataset, [Outcome.counts("t1", 1, 2)], close_step=True) is not None
    assert bots.flush(SOON_S) == 0
    assert journalled(bots, dataset) == ["report", "report"]
    assert bots.health.lost == 0


def test_reports_beyond_the_limit_are_counted_as_lost(connect):
    bots = connect(NOWHERE, report_deadline_s=0.1, spool_bytes=200)

    for task in IDS[:5]:
        bots.report("guru", [Outcome.counts(task, 1, 2)])

    assert bots.health.lost + bots.health.kept == 5
    assert bots.health.lost > 0

"""`bots doctor`."""

import json

from bots_client import Task, Version
from bots_service import __version__
from bots_service.cli.doctor import version_findings
from tests.cli.running import CommandLine
from tests.serving import free_port, running_service


def by_subject(document):
    return {each["about"]: each for each in document["checks"]}


def test_a_fit_machine_and_a_running_service_have_no_problem(bots):
    found = bots("doctor", "--json").json
    assert found["problems"] == 0
    subjects = by_subject(found)
    assert subjects["service"]["said"] == f"version {__version__} at {bots.url}, the same as this program"
    assert subjects["service readiness"]["grade"] == "ok"
    assert "service draws" not in subjects
    assert list(bots.folder.iterdir()) == []


def test_a_line_tells_each_finding_and_the_last_sums_up(bots):
    lines = bots.ok("doctor").splitlines()
    assert lines[-1].startswith("no problems, ")
    assert {line.split()[0] for line in lines[:-1]} <= {"ok", "warning"}
    assert len(lines) - 1 == len(bots("doctor", "--json").json["checks"])


def test_problems_end_with_exit_code_1_and_passwords_are_never_shown(tmp_path):
    bots = CommandLine("", tmp_path)
    port = free_port()
    asked = {
        "BOTS_HOST": "0.0.0.0",  # noqa: S104 - what the doctor is to find
        "BOTS_DATABASE_URL": f"postgresql://bots:hunter2@127.0.0.1:{port}/bots",
        "BOTS_REDIS_URL": f"redis://:hunter2@127.0.0.1:{port}/0",
        "BOTS_DATABASE_TIMEOUT_S": "1",
    }
    done = bots("doctor", "--json", "--url", f"http://127.0.0.1:{port}", **asked)
    assert (done.code, done.err) == (1, "")
    found = json.loads(done.out)
    wrong = {each["about"] for each in found["checks"] if each["grade"] == "problem"}
    assert wrong == {"address", "database", "tables", "redis", "service"}
    assert found["problems"] == len(wrong)
    assert "hunter2" not in done.out
    plain = bots("doctor", **asked)
    assert (plain.code, plain.err) == (1, "")
    assert "hunter2" not in plain.out
    assert plain.out.splitlines()[-1].startswith("4 problems")


def test_another_service_at_the_address_is_a_problem(bots):
    done = bots("doctor", "--json", "--url", f"{bots.url}/elsewhere")  # where nothing is
    found = by_subject(json.loads(done.out))
    assert (done.code, found["service"]["grade"]) == (1, "problem")
    assert "--url" in found["service"]["advice"]


def test_a_service_that_wants_a_key_is_a_warning(tmp_path):
    key = "made-for-this-test-alone"
    with running_service(tmp_path / "service", admin_key=key) as service:
        bots = CommandLine(service.url, tmp_path)
        without, with_key = bots("doctor", "--json").json, bots("doctor", "--json", BOTS_API_KEY=key).json
    assert by_subject(without)["service"]["grade"] == "warning"
    assert "BOTS_API_KEY" in by_subject(without)["service"]["said"]
    assert by_subject(with_key)["service"]["grade"] == "ok"


def test_a_run_whose_choice_brings_little_is_a_warning(bots, client):
    client.create_dataset("bare", [Task(f"t{number}") for number in range(40)])
    client.create_run("bare", "default", belief="bots")
    found = by_subject(bots("doctor", "--json").json)["run bare/default"]
    assert found["grade"] == "warning"
    assert f"fewer than {40 // 10} tasks a step" in found["said"]
    assert f"fewer than {40 // 10} tasks a step" in bots.ok("runs", "show", "bare")
    client.delete_dataset("bare")


def test_a_service_of_another_version_is_told():
    theirs = Version(version="0.0.1", numpy="1.26.4", schema="0001")
    versions, draws = version_findings(theirs, where="http://service")
    assert (versions.grade, draws.grade) == ("warning", "warning")
    assert f"version 0.0.1 with tables 0001 at http://service; here {__version__}" in versions.said
    assert "numpy 1.26.4 there" in draws.said


def test_a_setting_that_can_not_be_is_told_in_one_line(bots):
    assert "BOTS_WORKERS" in bots("doctor", BOTS_WORKERS="many").assert_one_line(2)

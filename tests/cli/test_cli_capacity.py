"""`bots capacity`."""

import json

from tests.cli.running import CommandLine


def capacity(tmp_path, *arguments):
    return CommandLine("", tmp_path)("capacity", *arguments)


def test_it_needs_no_service_and_says_what_is_full_first(tmp_path):
    text = capacity(tmp_path, "--runs", "10000").out
    document = capacity(tmp_path, "--runs", "10000", "--json").json
    [line] = [line for line in text.splitlines() if line.startswith("full first")]
    assert document["first_full"]["resource"] in line
    needs = {need["resource"]: need for need in document["demand"]["needs"]}
    shares = {name: need["needed"] / need["available"] for name, need in needs.items() if not need["chosen"]}
    assert max(shares, key=lambda name: shares[name]) == document["first_full"]["resource"]
    assert document["first_full"]["share"] == max(shares.values())
    assert document["measured"]["commit"] in text


def test_more_runs_need_more_and_a_smaller_redis_is_full_first(tmp_path):
    few, many = (capacity(tmp_path, "--runs", runs, "--json").json["demand"] for runs in (100, 1000))
    assert many["per_second"]["postgres_ms"] > 2 * few["per_second"]["postgres_ms"]
    small = capacity(tmp_path, "--runs", 100, "--redis-gib", 0.01, "--json").json
    assert small["first_full"]["resource"] == "Redis memory"


def test_a_value_out_of_range_is_refused_in_one_line(tmp_path):
    assert "--runs" in capacity(tmp_path, "--runs", "0").assert_one_line(2)


def test_the_options_are_the_workload_and_the_servers(tmp_path):
    document = json.loads(
        capacity(tmp_path, "--replicas", 3, "--fsyncs", 500, "--pool-tasks", 10**7, "--idle-runs", 7, "--json").out
    )
    assert (document["workload"]["idle_runs"], document["workload"]["pool_tasks"]) == (7, 10**7)
    assert (document["demand"]["replicas"], document["room"]["fsyncs_per_second"]) == (3, 500)

"""`bots compare-beliefs`: which belief fits a run, as a table and as JSON."""

from bots_client import Outcome, Task


def test_beliefs_are_compared_in_a_table_and_as_json(bots, client):
    client.create_dataset("compared", [Task("a", (0.25, 0.75)), Task("b", (0.5, 0.875))], reference_models=("w", "s"))
    assert "Too few steps: none has outcomes" in bots.ok("compare-beliefs", "compared")
    for step in range(3):
        client.report("compared", [Outcome.counts("a", step, 4), Outcome.counts("b", 3, 4)])
    found = bots("compare-beliefs", "compared", "--json").json
    assert (found["steps"], found["begins_after"], found["restarted"], found["recommended"]) == (3, 0, False, None)
    losses = {belief["name"]: belief["log_loss"] for belief in found["beliefs"]}
    shown = bots.ok("compare-beliefs", "compared")
    for name in ("this run", "tracker without references", "BOTS, forgetting 0.05, implicit weight 0.2"):
        (line,) = [line for line in shown.splitlines() if line.strip().startswith(f"{name} ")]
        assert f"{losses[name]:.4f}" in line
    assert found["advice"] in shown
    last = bots.ok("compare-beliefs", "compared", "--steps", 1)
    assert "steps with outcomes: 1, rollouts: 8; begins after step 2 with fresh beliefs" in last

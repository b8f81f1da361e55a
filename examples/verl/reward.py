"""A reward function for verl that also tells BOTS what each rollout earned: yours, and one line above it."""

import re

from bots_client.integrations.verl import reporting


@reporting
def compute_score(solution_str: str, ground_truth: str, **_others: object) -> float:
    """Return 1 where the last number of the solution is the answer, else 0."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", solution_str.replace(",", ""))
    return float(bool(numbers) and numbers[-1] == ground_truth)

"""Tasks that a tiny model can learn in seconds; nothing here needs torch.

A task is some wanted letters before a "?"; an answer is right if it begins with one of them. So the more letters are
wanted, the easier a task is at first. Before a "??" the letters are wanted as capitals, which the model can't write:
half of the tasks are out of its reach.
"""

LETTERS = "abcdefghijkl"
WANTED = (1, 2, 4, 8, 12)  # letters of a task


def rows() -> list[dict[str, str]]:
    """Return the training data: 120 rows, each with the id of its task."""
    return [
        row
        for start, letter in enumerate(LETTERS)
        for count in WANTED
        if (wanted := (LETTERS * 2)[start : start + count])
        for row in (
            {"task_id": f"{letter}{count}", "prompt": f"{wanted}?", "wanted": wanted},
            {"task_id": f"{letter}{count}-capital", "prompt": f"{wanted}??", "wanted": wanted.upper()},
        )
    ]


def begins_well(completions: list[str], wanted: list[str], **_columns: object) -> list[float]:
    """Return 1 for each answer that begins with a wanted letter, else 0."""
    return [float(answer != "" and answer[0] in letters) for answer, letters in zip(completions, wanted, strict=True)]

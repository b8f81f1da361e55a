"""The word list of `make check-words` finds what it should, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def findings(text: str) -> list[str]:
    """Return the words that blocklint finds in a text, by the repository's list."""
    command = [sys.executable, "-m", "blocklint", "--stdin"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT, check=False)
    words = [line.partition('use of "')[2].rstrip('"') for line in done.stdout.splitlines() if "use of" in line]
    assert (done.returncode == 1) == bool(words), done.stderr
    return words


@pytest.mark.parametrize("word", ["beside", "Likewise", "by itself", "as it came", "lacks", "anew", "told otherwise"])
def test_a_word_of_the_list_is_found_and_the_check_fails(word):
    assert word.lower() in findings(f"The service answers {word} and more.\n")


def test_plain_words_pass():
    assert findings("A new run continues automatically. It has no key, so the first caller waits.\n") == []

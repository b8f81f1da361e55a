"""What the command of the finetuning run says before it trains."""

import subprocess
import sys
from pathlib import Path

from tests.serving import NOWHERE

ROOT = Path(__file__).parents[2]


def test_a_service_that_is_not_there_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.finetune", "--url", NOWHERE, "--output", str(tmp_path / "out")]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert f"no BOTS service is ready at {NOWHERE}" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()

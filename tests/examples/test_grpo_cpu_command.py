"""What the command of the finetuning run says before it trains."""

import subprocess
import sys
from pathlib import Path

from tests.serving import free_port

ROOT = Path(__file__).parents[2]


def test_a_service_that_is_not_there_is_said_before_anything_is_trained(tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "examples.grpo_cpu", "--url", url, "--output", str(tmp_path / "out")]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert f"no BOTS service is ready at {url}" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()

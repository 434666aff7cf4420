"""Which build of torch make installs: the CPU build without a card, with a fallback within seconds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from browsing import serve

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "packaging" / "torch_build.py"
NOWHERE = "http://127.0.0.1:9"
without_driver = pytest.mark.skipif(
    not sys.platform.startswith("linux") or Path("/proc/driver/nvidia/version").exists(),
    reason="another system, or a machine with a card",
)


def asked(choice: str, index: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DRY": "1", "LRP_COMPANION_TORCH_INDEX": index}
    command = [sys.executable, str(SCRIPT), choice]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@without_driver
def test_without_a_card_the_cpu_build_comes_from_its_own_index(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "index.html").write_text("<a href='torch.whl'>torch</a>")
    for index in serve(tmp_path):
        said = asked("", index)
        line, command = said.stdout.splitlines()
        assert said.returncode == 0 and line.startswith("no NVIDIA driver here: torch comes as the CPU build")
        assert re.fullmatch(rf"-m pip install .* torch==[\d.]+ --index-url {index}", command)
        assert asked("default", index).stdout == "" == asked("cuda", index).stdout
        assert asked("cpu", index).stdout.startswith("TORCH=cpu: torch comes as the CPU build")


@without_driver
def test_an_index_out_of_reach_costs_seconds_and_one_line() -> None:
    start = time.perf_counter()
    said = asked("", NOWHERE)
    assert time.perf_counter() - start < 10
    assert said.returncode == 0 and said.stdout.count("\n") == 1
    assert "does not answer: torch comes from the package index" in said.stdout

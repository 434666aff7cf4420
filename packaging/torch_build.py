"""Which build of torch `make` installs: `python packaging/torch_build.py [cpu|cuda|default]`.

On Linux the package index's torch brings CUDA, several gigabytes that a machine without an NVIDIA driver has
no use for. There the CPU build of the pinned version comes from PyTorch's own index, if that answers within a
few seconds, and else from the package index. `cpu` asks for the CPU build in any case, `cuda` and `default`
for the package index's build. LRP_COMPANION_TORCH_INDEX names another index; with DRY=1 the command is only
printed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INDEX = "https://download.pytorch.org/whl/cpu"
CHOICES = ("", "cpu", "cuda", "default")
PATIENCE = 3.0
"""Seconds that PyTorch's index has to answer."""


def pinned() -> str:
    """Return the requirement of `constraints.txt`, such as "torch==2.13.0"."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return re.findall(r"^torch==\S+", text, re.MULTILINE)[0]


def has_driver() -> bool:
    """Whether an NVIDIA driver is loaded, or its tool is there."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def answers(index: str) -> bool:
    """Whether an index has a page for torch."""
    try:
        with urllib.request.urlopen(f"{index}/torch/", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def chosen(choice: str, *, linux: bool, driver: bool, index: str) -> tuple[str | None, str]:
    """Return the index to take torch from, None for the package index, and a line that says why.

    >>> chosen("", linux=True, driver=True, index=INDEX)
    (None, '')
    >>> chosen("cuda", linux=True, driver=False, index=INDEX)
    (None, '')
    """
    if choice in ("cuda", "default") or (not choice and (driver or not linux)):
        return None, ""
    why = "TORCH=cpu" if choice else "no NVIDIA driver here"
    if answers(index):
        return (
            index,
            f"{why}: torch comes as the CPU build from {index} (TORCH=default takes the package index)",
        )
    return None, f"{why}, but {index} does not answer: torch comes from the package index"


def main(choice: str) -> int:
    """Install the CPU build where it is wanted and to be had; else leave torch to what is installed next."""
    if choice not in CHOICES:
        print(f"make: got TORCH={choice}; expected cpu, cuda or default", file=sys.stderr)
        return 2
    if importlib.util.find_spec("torch") is not None and not os.environ.get("DRY"):
        return 0
    index = os.environ.get("LRP_COMPANION_TORCH_INDEX") or INDEX
    index = index.rstrip("/")
    source, line = chosen(choice, linux=sys.platform == "linux", driver=has_driver(), index=index)
    if line:
        print(line, flush=True)
    if source is None:
        return 0
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", pinned()]
    command += ["--index-url", source]
    if os.environ.get("DRY"):
        print(" ".join(command[1:]))
        return 0
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else ""))

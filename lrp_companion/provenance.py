"""What numbers were made with: versions, commit and hardware, for a manifest."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from lrp_companion import __version__

PACKAGES = ("torch", "transformers", "numpy", "captum", "accelerate", "pyarrow")


def surroundings() -> dict[str, Any]:
    """Versions, commit and hardware, for a manifest: what the numbers were made with."""
    versions = {
        "python": platform.python_version(),
        "lrp_companion": __version__,
        **{name: metadata.version(name) for name in PACKAGES},
    }
    cpu = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).is_file():
        cpu = next(
            (
                line.partition(":")[2].strip()
                for line in info.read_text().splitlines()
                if line.startswith("model name")
            ),
            cpu,
        )
    hardware: dict[str, Any] = {"cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    if torch.cuda.is_available():
        hardware["gpus"] = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {"versions": versions, "commit": _commit(), "hardware": hardware}


def _commit() -> str | None:
    """The commit of the checkout that this package runs from, with "+" where files differ from it; None
    outside a checkout.
    """
    here = Path(__file__).parents[1]
    if not (here / ".git").exists():
        return None
    try:
        head, changes = (
            subprocess.run(
                ["git", "-C", str(here), *call], capture_output=True, text=True, check=True, timeout=20
            ).stdout
            for call in (
                ("rev-parse", "--short=12", "HEAD"),
                ("status", "--porcelain", "--untracked-files=no"),
            )
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head.strip() + ("+" if changes.strip() else "")

"""Provenance of numbers: versions, commit and hardware, for a manifest."""

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
    """Return versions, commit and hardware, for a manifest."""
    versions = {
        "python": platform.python_version(),
        "lrp_companion": __version__,
        **{name: _version(name) for name in PACKAGES},
    }
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    cpu = next(names, cpu)
    hardware: dict[str, Any] = {"cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    if torch.cuda.is_available():
        hardware["gpus"] = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {"versions": versions, "commit": _commit(), "hardware": hardware}


def _version(name: str) -> str | None:
    """The version of a package; None where it is not installed, as extras may be."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout that this package runs from; None outside a checkout.

    It ends with "+" if files differ from it.
    """
    here = Path(__file__).parents[1]
    command = ["git", "-C", str(here), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return told.strip() if (here / ".git").exists() else None

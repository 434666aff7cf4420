"""The paper's tables, for comparison. They are never used as results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

DATA = {"sst2": "SST", "imdb": "IMDB"}
FINGERPRINTS = {"sst2": "5a59d3b0e50a", "imdb": "2856d583b652", "mnist": "051f70252e28"}
"""Fingerprints of the splits that the paper measures on: SST-2 validation, IMDB test, MNIST test."""


def on_paper_data(config: Mapping[str, Any]) -> bool:
    """Whether a run's data are the paper's, by their fingerprint and not by a file's name.

    >>> on_paper_data({"task": "sst2", "data": "5a59d3b0e50a"}), on_paper_data({"task": "sst2", "data": "0"})
    (True, False)
    """
    return config["task"] in FINGERPRINTS and config["data"] == FINGERPRINTS[config["task"]]


def paper_table(name: str) -> list[dict[str, Any]]:
    """Rows of the paper's Table 1, 2 or A3 as printed (You et al. 2025, arXiv 2510.18810).

    >>> paper_table("table1")[2]["left_vs_right"]
    0.7865
    """
    file = resources.files("lrp_companion").joinpath("embedded/paper_tables.json")
    return json.loads(file.read_text(encoding="utf-8"))[name]


def paper_paths(dataset: str, *, column: str = "loo_r") -> dict[str, list[float]]:
    """A column of the paper's Table A3 along its three paths ("SST" or "IMDB"), each in its order.

    >>> paper_paths("SST")["back-to-front"][:3]
    [0.22, 0.26, 0.38]
    """
    out: dict[str, list[float]] = {}
    for row in paper_table("tableA3"):
        if row["dataset"] == dataset:
            out.setdefault(row["path"].replace("_", "-"), []).append(row[column])
    return out

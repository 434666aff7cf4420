"""What other chapters take from `lrp_book.worth` under its name until now. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrp_book.worth import correlations, kept_tokens, worth
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import Protocol

__all__ = ["correlations", "kept_tokens", "method_rows", "worth_columns"]


def worth_columns(
    run: TextRun, others: Sequence[TextRun], method: str, *, tokens: str = "no-special"
) -> dict[str, np.ndarray]:
    """`worth` of one method, by what it gives (chapter 8)."""
    r = worth(run, others, [method], tokens=tokens)[0]
    return dict(zip(r.what.values.tolist(), r.values, strict=True))


def method_rows(run: TextRun, *, tokens: str, methods: Sequence[str]) -> list[dict[str, Any]]:
    """r of methods with LOO by every removal, on each example (chapter 7)."""
    return [
        {"what": name, "reference": removal, "values": run.r(name, Protocol(tokens=tokens, removal=removal))}
        for name in methods
        for removal in run.manifest["axes"]["removal"]
    ]

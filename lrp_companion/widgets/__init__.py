"""Widgets: one class, one script, one style each, alive in Jupyter and in pages without a kernel. No torch in
here.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "TokenHeatmap": "token_heatmap",
    "LayerToggles": "layer_toggles", "LiveSentence": "live",
    "ProductTree": "product_tree", "SharesSimplex": "shares_simplex", "SoftmaxLab": "softmax_lab",
    "FrontierPlayer": "frontier_player", "PerturbationPlayer": "perturbation_player",
    "ProtocolSwitchboard": "protocol_switchboard",
}  # fmt: skip

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lrp_companion.widgets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrp_companion.widgets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

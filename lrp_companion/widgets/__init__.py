"""Widgets: one class, one script and one style each, for Jupyter and for pages without a kernel. No torch.

`TokenHeatmap` is in `maps`; its script and its style are `static/token_heatmap.js` and `.css`.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    **dict.fromkeys(("LayerFlow", "LayerToggles", "LiveSentence", "SentenceBox"), "layers"),
    **dict.fromkeys(("OutlierScene", "ProtocolSwitchboard", "TokenHeatmap"), "maps"),
    **dict.fromkeys(("FrontierPlayer", "PerturbationPlayer"), "players"),
    **dict.fromkeys(("HeadStepper", "ProductTree", "SharesSimplex", "SoftmaxLab"), "toys"),
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lrp_companion.widgets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrp_companion.widgets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

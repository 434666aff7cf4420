"""Widgets: one class, one script and one style each, for Jupyter and for pages without a kernel. No torch.

A widget is a module with `static/NAME.js` and `static/NAME.css` of the same name; its class has the module's
name in capitals: `token_heatmap` holds `TokenHeatmap`. Nothing else lists it. A script without such a module
is shared by several widgets (`base.SHARED`).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_MODULES = sorted(
    {path.stem for path in _HERE.glob("static/*.js")} & {path.stem for path in _HERE.glob("*.py")}
)
_MODULES.remove("base")
_HOME = {"".join(map(str.capitalize, name.split("_"))): name for name in _MODULES}
_HOME["LiveSentence"] = "live"  # shows other widgets

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lrp_companion.widgets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrp_companion.widgets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

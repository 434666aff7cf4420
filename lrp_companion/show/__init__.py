"""Records as token heat maps, tables and figures: drawings and plain tables.

Names are loaded when they are used, so the terminal table needs no plotting library.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "figures": ("Drawing", "dots", "drawing", "lines", "patch_grid", "patch_maps", "specification_curve"),
    "palette": ("diverging", "diverging_map", "styles"),
    "tables": ("table",),
    "tokens": ("terminal_table", "token_heatmap"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lrp_companion.show.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrp_companion.show' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""Figures and tables of single chapters; names are loaded when they are used."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "binned": ("binned_lines",),
    "cost_frontier": ("frontier_figure", "mask_path_figure", "method_label"),
    "frontier_tables": (
        "backing_table", "budget_table", "difference_table", "digit_frontier_table", "errs_table",
        "first_look_table", "frontier_table", "nearness_table", "option_table", "perturbation_table",
    ),
    "digits": ("digit_maps", "share_line"),
    "paired": ("paired_table",),
    "products": ("product_figure", "share_dots"),
    "r_scale": (
        "beyond_table", "references_table", "removal_leads_table", "removals_table", "scale_dots",
        "scale_strip", "worth_over_table",
    ),
    "shifts": ("error_shares_table", "stages_table", "zero_node_table"),
    "sentences": ("answers",),
    "short_tables": ("table1_short", "won_table"),
    "wirings": (
        "audit_table", "gates_table", "outcomes_table", "wiring_effects_table", "wiring_frontier_table",
        "wiring_paths_figure", "wiring_steps_table", "wirings_figure", "wirings_table", "worth_table",
    ),
    "vision": ("vision_outcomes_table", "vision_path_table", "vision_table"),
}  # fmt: skip
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lrp_book.views.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrp_book.views' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

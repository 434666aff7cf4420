"""Figures and tables of single chapters; names are loaded when they are used."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "digit_variants": (
        "ig_steps", "nearest_table", "variant_choices_table", "variant_curve", "variant_label",
        "variant_ranges_table", "variant_signs_table", "variant_table",
    ),
    "layer_game": ("layer_game_figure", "mask_choices"),
    "paired": ("first_token_table", "interventions_table", "paired_table", "stated_table"),
    "r_scale": ("removal_leads_table",),
    "shifts": ("shift_band", "shift_table"),
    "protocol_grid": ("gain_map", "option_dots", "share_lines", "specification_curve"),
    "protocol_tables": (
        "anova_table", "counts_table", "findings_table", "gains_table", "late_table", "presets_table",
        "protocols_table", "signs_table", "subgroup_table", "tag_table",
    ),
    "sentences": ("answers",),
    "short_tables": ("cells_table", "stated_matrix", "won_table"),
    "trainings": (
        "both_data_sets_table", "pooling_table", "training_counts_table", "training_curve",
        "training_gains_table", "training_shares_table", "training_turns_table", "trainings_table",
    ),
}  # fmt: skip
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lrp_book.views.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrp_book.views' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""Records shown: token heat maps, tables, figures. Names are loaded when used, so the terminal table needs no
plotting library.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "token_heatmap": "tokens", "terminal_table": "tokens",
    "table": "tables",
    "layer_curves": "curves", "method_dots": "curves", "perturbation_figure": "curves",
    "layer_game_figure": "lattices", "mask_choices": "lattices",
    "layer_plot": "plots",
    **dict.fromkeys(("table1_beside", "table2_beside", "table2_dots", "table2_curves", "tableA3_beside",
        "tableA3_curves"), "beside"),
    **dict.fromkeys(("claims_table", "effects_table", "runs_table", "not_run_table", "report",
        "write_figures"), "beside"),
    "binned_lines": "binned", "digit_maps": "digits", "share_line": "digits", "product_figure": "products",
    "share_dots": "products",
    **dict.fromkeys(("specification_curve", "option_dots", "share_lines", "gain_map", "counts_table",
        "readings_table"), "audit"),
    **dict.fromkeys(("anova_table", "signs_table", "late_table", "findings_table", "gains_table"), "audit"),
    **dict.fromkeys(("presets_table", "subgroup_table", "tag_table"), "audit"),
    **dict.fromkeys(("frontier_figure", "frontier_table", "difference_table", "perturbation_table",
        "budget_table"), "remedy"),
    **dict.fromkeys(("option_table", "digit_frontier_table", "errs_table", "backing_table",
        "mask_path_figure"), "remedy"),
    "method_label": "remedy", "nearness_table": "remedy", "first_look_table": "remedy",
    **dict.fromkeys(("reading_curve", "reading_table", "reading_choices_table", "reading_signs_table",
        "nearest_table"), "readings"),
    "reading_ranges_table": "readings", "ig_steps": "readings", "reading_label": "readings",
    **dict.fromkeys(("training_curve", "trainings_table", "training_counts_table", "training_shares_table"),
        "trainings"),
    "training_gains_table": "trainings", "training_turns_table": "trainings",
    "Drawing": "canvas", "drawing": "canvas",
    "diverging": "palette", "diverging_map": "palette", "styles": "palette",
}  # fmt: skip

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lrp_companion.views.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lrp_companion.views' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

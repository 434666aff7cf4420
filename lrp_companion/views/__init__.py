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
    "layer_game_figure": "layer_game", "mask_choices": "layer_game",
    "layer_plot": "plots",
    **dict.fromkeys(("table1_beside", "table2_beside", "table2_dots", "table2_curves", "tableA3_beside",
        "tableA3_curves"), "paper_tables"),
    **dict.fromkeys(("claims_table", "effects_table", "runs_table", "not_run_table", "report",
        "write_figures"), "paper_tables"),
    "binned_lines": "binned", "digit_maps": "digits", "share_line": "digits", "product_figure": "products",
    "share_dots": "products",
    **dict.fromkeys(("specification_curve", "option_dots", "share_lines", "gain_map", "counts_table",
        "protocols_table"), "protocol_grid"),
    **dict.fromkeys(("anova_table", "signs_table", "late_table", "findings_table", "gains_table"), "protocol_grid"),
    **dict.fromkeys(("presets_table", "subgroup_table", "tag_table"), "protocol_grid"),
    **dict.fromkeys(("frontier_figure", "frontier_table", "difference_table", "perturbation_table",
        "budget_table"), "cost_frontier"),
    **dict.fromkeys(("option_table", "digit_frontier_table", "errs_table", "backing_table",
        "mask_path_figure"), "cost_frontier"),
    "method_label": "cost_frontier", "nearness_table": "cost_frontier", "first_look_table": "cost_frontier",
    **dict.fromkeys(("variant_curve", "variant_table", "variant_choices_table", "variant_signs_table",
        "nearest_table"), "digit_variants"),
    "variant_ranges_table": "digit_variants", "ig_steps": "digit_variants", "variant_label": "digit_variants",
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

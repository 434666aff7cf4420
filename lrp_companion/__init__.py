"""LRP Companion: when LRP diverges from Leave-One-Out in Transformers. Names are loaded when they are
used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "method": "registry",
    "family": "families",
    "rule_set": "methods.lrp",
    "attribute": "methods",
    "edge_loo": "methods.edges",
    "layer_lattice": "methods",
    "layer_relevance": "methods",
    "removal_evaluator": "methods",
    "check": "model_check",
    "symmetries": "model_check",
    "load_classifier": "loading.classifier",
    "Classifier": "loading.classifier",
    "LinearAttention": "toys.linear_attention",
    "load_dataset": "sources",
    "pearson": "metrics",
    "spearman": "metrics",
    "kendall": "metrics",
    "agreement": "metrics",
    "perturbation_curve": "metrics",
    "bootstrap_mean": "metrics",
    "paired_difference": "metrics",
    "conservation_gap": "metrics",
    "invariance_gap": "metrics",
    "open_record": "lab.record",
    "interval": "lab.record",
    "word_table": "lab.word_table",
    "token_heatmap": "show",
    **dict.fromkeys(importlib.import_module("lrp_companion.widgets").__all__, "widgets"),
    "Attribution": "attribution",
    "Completion": "attribution",
    "Lattice": "schema",
    "ModelCard": "schema",
    "Protocol": "schema",
    "CompanionError": "checks",
    "InputError": "checks",
    "SourceError": "checks",
    "ModelError": "checks",
}

__all__ = [*sorted(_HOME), "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        from lrp_companion.checks import extra

        with extra(name):
            globals()[name] = getattr(importlib.import_module(f"lrp_companion.{_HOME[name]}"), name)
        return globals()[name]
    raise AttributeError(f"module 'lrp_companion' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

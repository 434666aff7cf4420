"""The table of symmetries for the package's models, and for the pair of `lrp_book.first_token`.

`python -m lrp_book.records.symmetries > results/symmetries.json`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lrp_book.first_token import pair
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import method_call
from lrp_companion.model_check import SAME, Symmetries, default_methods, maps_by, moves_between, symmetries

NETS = ("post-ln-first", "post-ln-mean", "modernbert", "gpt2", "llama")
ROOT = Path(__file__).resolve().parents[3]
MODELS = ("companion", *(f"training/wirings/{name}" for name in NETS))
TEXTS = ["not a film of rare grace", "the plot is dull , but the actors are warm"]
PAIR = "a head that reads the first token, or a bias"
DIGITS = 3


def record() -> dict[str, Any]:
    """`models`: each model's `Symmetries` as a mapping, moves to three digits; `pair`: moves between two."""
    tables: dict[str, Any] = {}
    for model in MODELS:
        clf = load_classifier(str(ROOT / model) if "/" in model else model)
        tables[Path(model).name] = json.loads(symmetries(clf, TEXTS).to_json())
    head, bias = pair(load_classifier("companion").tokenizer)
    calls = [method_call(name) for name in default_methods(head)]
    between = moves_between(maps_by(head, TEXTS, calls), maps_by(bias, TEXTS, calls))
    made = {"texts": TEXTS, "made with": surroundings()}
    return made | {"models": _rounded(tables), "pair": _rounded(between)}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def read(path: Path) -> dict[str, Symmetries]:
    """The tables of a record by model; the pair is one more symmetry of a model of its own."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    tables = {name: Symmetries(**table) for name, table in kept["models"].items()}
    tables["pair"] = Symmetries("pair", len(kept["texts"]), {PAIR: kept["pair"]}, {PAIR: 0.0})
    return tables


SHOWN = (
    ("from positions to words", "companion"),
    ("from types to words", "companion"),
    ("grouping of gates", "llama"),
    ("value bias", "gpt2"),
    (PAIR, "pair"),
)
"""The symmetries that move a score, each on one model."""


def page_table(tables: Mapping[str, Symmetries]) -> list[str]:
    """The page's table: a row for each method and site, a column for each of `SHOWN`.

    `-` where a score stays; nothing where the model has no such site.
    """
    lines = [" | ".join(["", *(f"{name} (`{model}`)" for name, model in SHOWN)]), " | ".join(["---"] * 6)]
    rows = list(dict.fromkeys(row for name, model in SHOWN for row in tables[model].moves[name]))
    alone = ("AttnLRP", "CP-LRP", "gradient x input")  # where words are all that is embedded
    for row in [row for row in rows if row not in alone]:
        cells = [row]
        for name, model in SHOWN:
            moves = tables[model].moves[name]
            by = moves.get(row, moves.get(row.removesuffix(", word")))
            cells.append("" if by is None else f"{by:.2g}" if by > SAME else "-")
        lines.append(" | ".join(cells))
    return [f"| {line} |".replace("|  |", "| |") for line in lines]


if __name__ == "__main__":
    print(json.dumps(record(), indent=1))

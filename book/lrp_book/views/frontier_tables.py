"""Agreement with LOO against cost in tables, and where the mask gradient fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lrp_book.analysis.tuned_options import Choice
from lrp_book.views.cost_frontier import TOKENS, method_label
from lrp_companion.schema import TOKEN_CHOICES
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]

REFERENCE_HEADINGS = {"attnlrp": "difference minus AttnLRP's", "loo": "difference minus LOO's"}


def frontier_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `frontier`: forward + backward passes, seconds, speed-up over LOO, r with LOO, and whether the
    method is dominated.
    """
    shown = [
        {
            "method": method_label(row["method"]),
            "passes": f"{row['forwards']:.0f} + {row['backwards']:.0f}",
            "seconds": row["seconds"].mean,
            **{f"r, {TOKENS[tokens]}": row["r"]["pearson"][tokens] for tokens in TOKEN_CHOICES},
            "times faster than LOO": row["speedup"],
            "dominated": ", ".join(TOKENS[key] for key in TOKEN_CHOICES if row["dominated by"][key]) or "no",
        }
        for row in rows
    ]
    columns = [name for name in shown[0] if any(row[name] is not None for row in shown)]
    return table(shown, columns=columns, caption=title, digits=digits)


def nearness_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `frontier`: error of the value, overlap of the three largest, and Spearman's r, by tokens."""
    columns: dict[str, Callable[[Row, str], Any]] = {
        "error": lambda row, tokens: row["error"][tokens],
        "top 3": lambda row, tokens: row["overlap"][tokens][3],
        "Spearman": lambda row, tokens: row["r"]["spearman"][tokens],
    }
    shown = [
        {"method": method_label(row["method"])}
        | {
            f"{name}, {TOKENS[tokens]}": value(row, tokens)
            for tokens in TOKEN_CHOICES
            for name, value in columns.items()
        }
        for row in rows
    ]
    keys = [f"{name}, {TOKENS[tokens]}" for tokens in TOKEN_CHOICES for name in columns]
    groups = {
        TOKENS[tokens]: [key for key in keys if key.endswith(TOKENS[tokens])] for tokens in TOKEN_CHOICES
    }
    headings = {"method": "method"} | {key: key.split(", ")[0] for key in keys}
    return table(shown, columns=headings, groups=groups, caption=title, digits=digits)


def difference_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `frontier`: paired differences of r to AttnLRP and CP-LRP, by both token choices."""
    shown = [
        {"method": method_label(row["method"])}
        | {
            f"{name}, {tokens}": row["minus"][name]["r"]["pearson"][tokens]
            for name in ("attnlrp", "cp-lrp")
            for tokens in TOKEN_CHOICES
            if name in row["minus"]
        }
        for row in rows
        if row["method"] != "loo"
    ]
    names = {"attnlrp": "minus AttnLRP", "cp-lrp": "minus CP-LRP"}
    keys = [
        f"{name}, {tokens}"
        for name in names
        for tokens in TOKEN_CHOICES
        if any(f"{name}, {tokens}" in row for row in shown)
    ]
    columns = {"method": "method"} | {key: TOKENS[key.split(", ")[1]] for key in keys}
    groups = {label: [key for key in keys if key.startswith(name)] for name, label in names.items()}
    groups = {label: columns_of for label, columns_of in groups.items() if columns_of}
    return table(shown, columns=columns, groups=groups, caption=title, digits=digits)


def perturbation_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `frontier`: mean logit along MoRF and LeRF, their difference, and that minus AttnLRP's and
    minus LOO's.
    """
    shown = []
    for row in sorted(rows, key=lambda row: -row["delta"].mean):
        cells = {"MoRF": row["morf"], "LeRF": row["lerf"], "LeRF − MoRF": row["delta"]}
        for name, heading in REFERENCE_HEADINGS.items():
            if name in row["minus"]:
                cells[heading] = row["minus"][name]["delta"]
        shown.append({"method": method_label(row["method"]), **cells})
    headings = [heading for heading in REFERENCE_HEADINGS.values() if any(heading in row for row in shown)]
    columns = ["method", "MoRF", "LeRF", "LeRF − MoRF", *headings]
    return table(shown, columns=columns, caption=title, digits=digits)


def budget_table(best: Mapping[str, Sequence[Row]], *, title: str, digits: int = 2) -> Table:
    """Rows of `best_within` by run: the method closest to LOO within each budget of passes, and its lead over
    the next.
    """
    shown = [
        {
            "run": run, "at most": row["budget"], "method": method_label(row["method"]), "r": row["r"],
            **({"next": method_label(row["next"]), "ahead of it by": row["ahead"]} if "next" in row else {}),
            "passes": f"{row['cost']:.0f}", "error of the value": row["error"],
            "times faster than LOO": row["speedup"],
        }
        for run, rows in best.items()
        for row in rows
    ]  # fmt: skip
    columns = list(dict.fromkeys(name for row in shown for name in row))
    return table(shown, columns=columns, caption=title, digits=digits)


def option_table(choices: Sequence[Choice], *, title: str, digits: int = 3) -> Table:
    """Each option against the earlier one: paired differences of r by model and tokens, and the verdict."""
    models = list(dict.fromkeys(model for choice in choices for model, _ in choice.differences))
    keys = {f"{model}, {tokens}": (model, tokens) for model in models for tokens in TOKEN_CHOICES}
    shown = []
    for choice in choices:
        cells = {key: choice.differences[at] for key, at in keys.items() if at in choice.differences}
        labels = {"option": method_label(choice.option), "verdict": choice.verdict}
        shown.append({**labels, "against": method_label(choice.against), **cells})
    headings = {name: name for name in ("option", "verdict", "against")}
    headings |= {key: TOKENS[tokens] for key, (_, tokens) in keys.items()}
    groups = {model: [key for key, (of, _) in keys.items() if of == model] for model in models}
    return table(shown, columns=headings, groups=groups, caption=title, digits=digits)


def first_look_table(
    noted: Mapping[str, Any], by_depth: Mapping[int, Sequence[Row]], *, title: str, digits: int = 2
) -> Table:
    """Numbers noted before there were records next to rows of `frontier`, by number of layers."""
    shown = []
    for note in noted["rows"]:
        method, tokens = note["method"], note["tokens"]
        cells: dict[str, Any] = {
            "method": method_label(method),
            "tokens": TOKENS[tokens],
            "n then": note["n"],
        }
        for layers, rows in by_depth.items():
            now = next((row["r"]["pearson"][tokens] for row in rows if row["method"] == method), None)
            cells |= {f"{layers} layers, then": note["r"].get(str(layers)), f"{layers} layers, now": now}
        shown.append(cells)
    return table(shown, caption=title, digits=digits)


def digit_frontier_table(rows: Sequence[Row], *, title: str, digits: int = 3) -> Table:
    """Rows of `digit_frontier`: passes, agreement of both graphs with LOO, and the distance of their maps."""
    shown = [
        {
            "method": "LOO" if row["method"] == "loo" else method_label(row["method"]),
            "forwards": row["forwards"],
            "backwards": row["backwards"], "left, with LOO": row["r"]["left"],
            "right, with LOO": row["r"]["right"],
            "left with right": row["left-right"], "distance": f"{row['gap'].mean:.1g}",
        }
        for row in rows
    ]  # fmt: skip
    return table(shown, caption=title, digits=digits)


def errs_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `where_it_errs`: rank correlation of r, and of the error, with features of a text; * where
    p, Holm is below 0.05.
    """
    features = list(dict.fromkeys(row["feature"] for row in rows))
    by_key = {(row["method"], row["of"], row["feature"]): row for row in rows}
    headings = {"concentration": "concentration of attention", "special": "attention on special tokens"}
    shown = []
    for method, of in dict.fromkeys((row["method"], row["of"]) for row in rows):
        cells = {
            headings.get(feature, feature): _starred(by_key.get((method, of, feature)), digits)
            for feature in features
        }
        shown.append({"method": method_label(method), "of": of, **cells})
    return table(shown, caption=title, digits=digits)


def _starred(row: Row | None, digits: int) -> str:
    """An effect, with a star where its corrected p is small."""
    if row is None:
        return "undefined"
    return row["effect"].text(digits) + (" *" if row["p, Holm"] < 0.05 else "")


def backing_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `backed_pairs`: two words, LOO of each, of both, and how much the single removals miss."""
    shown = [
        {
            "words": " … ".join(row["words"]), "class": row["label"],
            "LOO of the first": row["single"][0], "of the second": row["single"][1],
            "of both": row["pair"], "not seen": row["backing"], "largest |LOO| of a word": row["largest"],
        }
        for row in rows
    ]  # fmt: skip
    return table(shown, caption=title, digits=digits)

"""Sphinx extension: the primary analysis and the paper's Tables 1, 2 and A3, number by number, beside ours.

The directive `look-up` puts one table of all numbers with a box that filters it; the same rows are written as
a CSV file when the book is built.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr
from docutils import nodes
from sphinx.application import Sphinx

from lrp_book.primary import of_records
from lrp_book.sphinx import shows
from lrp_companion.lab.paper.primary import by_training, summary
from lrp_companion.lab.paper.published import paper_table
from lrp_companion.lab.paper.tables import MAP_SUFFIXES, PAIR_NAMES, PAIRS, PAPER_METHODS
from lrp_companion.lab.record import interval, open_record
from lrp_companion.registry import label_of
from lrp_companion.schema import mask_label
from lrp_companion.show.tables import TABLE_CSS

RESULTS = Path(__file__).resolve().parents[2] / "results"
FILE = "look_up.csv"
REVIEWS = "base/sst2-imdb-seed-0-imdb"
RECORDS = {
    ("12 layers", "SST-2"): ["sst2-12"],
    ("12 layers", "IMDB"): ["imdb-12"],
    ("6 layers", "SST-2"): ["sst2-6"],
    ("6 layers", "IMDB"): ["imdb-6"],
    ("MPNet", "SST-2"): ["base/sst2-seed-*-maps"],
    ("MPNet", "IMDB"): [REVIEWS, f"{REVIEWS}-rest"],
    ("MPNet, reviews as drawn", "IMDB"): [f"{REVIEWS}-maps"],
}
"""The records of r and of curves, by model and data; several hold different texts."""
LAYERS = {
    ("12 layers", "SST-2"): "sst2-12",
    ("12 layers", "IMDB"): "imdb-12",
    ("MPNet", "SST-2"): "base/sst2-seed-*-paths",
    ("MPNet, reviews as drawn", "IMDB"): f"{REVIEWS}-paths",
}
PAPER_DATA = {"SST-2": "SST", "IMDB": "IMDB"}
TOKENS = {"no-special": "words", "all": "all tokens", "no-first": "all but the first"}
SITES = {"word": "", "word+position": " + positions"}
FORMS = {"raw": "", "sum-to-one": ", divided by sums"}
BY = {"pearson": "Pearson", "spearman": "rank"}
COLUMNS = ["of", "counted", "by", "model", "paper", "mean", "low", "high", "n", "number", "data", "table"]
GAP = "CP-LRP − AttnLRP"


def with_gap(values: xr.DataArray) -> xr.DataArray:
    """The methods in words, and CP-LRP minus AttnLRP, paired."""
    kept = values.sel(explainer=[m for m in values.explainer.values if "+" not in m and m != "loo"])
    kept = kept.assign_coords(explainer=[label_of(name) for name in kept.explainer.values])
    gap = kept.sel(explainer="CP-LRP") - kept.sel(explainer="AttnLRP")
    return xr.concat([kept, gap.expand_dims(explainer=[GAP])], "explainer")


def read(r: xr.DataArray) -> pd.DataFrame:
    """Means with intervals of r: LOO by the attention mask, the predicted class's logit."""
    fixed = {"removal": "attention-mask", "target": "logit"}
    r = r.sel({axis: choice for axis, choice in fixed.items() if axis in r.dims}, drop=True)
    if "statistic" not in r.dims:
        r = r.expand_dims(statistic=["pearson"])
    axes = {"site": SITES, "statistic": BY}
    r = r.sel({name: [one for one in known if one in r[name]] for name, known in axes.items()})
    out = interval(r).to_dataframe().reset_index()
    forms = out["map"].map(FORMS) if "map" in out else ""
    return out.assign(counted=out.tokens.map(TOKENS) + out.site.map(SITES) + forms, by=out.statistic.map(BY))


def primary() -> Iterator[pd.DataFrame]:
    """The primary analysis: the mean over encoders, then every training with its interval over sentences."""
    of = of_records(str(RESULTS))
    rows = [("mean of ten networks", summary(of).d)]
    rows += [(f"{encoder}, {name}", values) for (encoder, name), values in by_training(of).iterrows()]
    for model, values in rows:
        for reading, value in values.items():
            counted, by = (
                str(reading).replace("all tokens", TOKENS["all"] + SITES["word+position"]).split(", ")
            )
            row = {"table": "Primary", "data": "SST-2", "of": GAP, "number": "r", "model": model}
            row |= {"counted": counted, "by": by} | {
                name: getattr(value, name) for name in ("mean", "low", "high", "n")
            }
            yield pd.DataFrame([row])


def table1() -> Iterator[pd.DataFrame]:
    """r of the maps of two graphs, and of each with LOO."""
    images = open_record("mnist-plain", results=RESULTS).frame("images")
    for theirs in paper_table("table1"):
        here = images[images.explainer == theirs["explainer"]].groupby("image").mean(numeric_only=True)
        for (pair, printed), form in [(pair, form) for pair in PAIRS.items() for form in MAP_SUFFIXES]:
            value = interval(here[f"r {pair}{MAP_SUFFIXES[form]}"])
            row = {"of": theirs["explainer"], "number": PAIR_NAMES[pair], "counted": f"maps{FORMS[form]}"}
            row |= {"by": "Pearson", "paper": theirs[printed], "model": "five nets"}
            row |= {name: getattr(value, name) for name in ("mean", "low", "high", "n")}
            yield pd.DataFrame([{"table": "Table 1", "data": "MNIST", **row}])


def table2() -> Iterator[pd.DataFrame]:
    """r with LOO and perturbation curves; the paper's one r stands beside each way of counting."""
    labels = {theirs: label_of(ours) for ours, theirs in PAPER_METHODS.items()}
    for (model, data), names in RECORDS.items():
        told = {"table": "Table 2", "data": data, "model": model}
        rows = [row for row in paper_table("table2") if row["dataset"] == PAPER_DATA[data]]
        paper = {labels[row["method"]]: row for row in rows}
        paper[GAP] = {
            name: paper["CP-LRP"][name] - paper["AttnLRP"][name]
            for name in ("loo_r", "lerf", "morf", "delta")
        }
        records = [open_record(name, results=RESULTS) for name in names]
        r = read(with_gap(xr.concat([record.r for record in records], "text", join="inner")))
        theirs = [
            paper.get(of, {}).get("loo_r") if by == "Pearson" else None
            for of, by in zip(r.explainer, r.by, strict=True)
        ]
        yield r.assign(**told, of=r.explainer, number="r", paper=theirs)
        if len(records) == 1:
            curves = interval(with_gap(records[0].curves)).to_dataframe().reset_index()
            theirs = [paper.get(of, {}).get(c) for of, c in zip(curves.explainer, curves.curve, strict=True)]
            number = curves.curve.map({"lerf": "LeRF", "morf": "MoRF", "delta": "Δ"})
            yield curves.assign(**told, of=curves.explainer, number=number, counted="curves", paper=theirs)


def table_a3() -> Iterator[pd.DataFrame]:
    """r with LOO along the paths of bypassed layers."""
    printed = pd.DataFrame(paper_table("tableA3")).rename(columns={"loo_r": "paper"})
    printed["bypassed"] = [mask_label(frozenset(layers)) for layers in printed.bypass]
    printed["of"] = printed.path.str.replace("_", " ") + ": " + printed.bypassed
    for (model, data), name in LAYERS.items():
        theirs = printed[printed.dataset == PAPER_DATA[data]][["bypassed", "of", "paper"]]
        r = read(open_record(name, results=RESULTS).layers).merge(theirs, on="bypassed")
        yield r.assign(table="Table A3", data=data, model=model, number="r").assign(
            paper=lambda rows: rows.paper.where(rows.by == "Pearson")
        )


@lru_cache
def numbers() -> pd.DataFrame:
    """Every number of the page, a row each."""
    return pd.concat([*primary(), *table1(), *table2(), *table_a3()], ignore_index=True)[COLUMNS].round(4)


SCRIPT = """
{const box = document.getElementById("look-up-asked"), shown = document.getElementById("look-up-shown")
const rows = [...document.querySelectorAll("#look-up tbody tr")]
const told = rows.map(row => [...row.cells].map(cell => cell.textContent).join("|").toLowerCase())
const filter = () => {
  const words = box.value.toLowerCase().split(",").map(word => word.trim())
  rows.forEach((row, k) => { row.hidden = !words.every(word => told[k].includes(word)) })
  shown.textContent = rows.filter(row => !row.hidden).length + " of " + rows.length + " numbers"
}
box.addEventListener("input", filter); filter()}
"""


def page() -> str:
    """The box, the link to the CSV file and the table as HTML."""
    heads = [*COLUMNS[: COLUMNS.index("mean")], "ours", *COLUMNS[COLUMNS.index("n") :]]
    cells = numbers().astype(object).where(numbers().notna(), None)
    body = []
    for row in cells.to_dict("records"):
        value = f"{row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]" if row["mean"] is not None else "–"
        paper = "–" if row["paper"] is None else f"{row['paper']:.2f}"
        told = row | {"paper": paper, "ours": value, "n": f"{row['n']:.0f}"}
        texts = [told[name] or "" for name in heads]
        body.append(
            f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in texts)}</tr>".replace("-0.00", "0.00")
        )
    return (
        f"<style>{TABLE_CSS}#look-up td{{min-width:0}}#look-up td:nth-child(6){{white-space:nowrap}}</style>"
        '<p><label>Find <input type="search" id="look-up-asked" size="40" '
        f'style="max-width:75vw" '
        f'value="Table 2, SST-2, 12 layers, Pearson, words"></label> <output id="look-up-shown"></output> · '
        f'<a href="../_static/{FILE}" download>All as CSV</a></p>'
        '<figure class="lrp-table" id="look-up"><div role="region" tabindex="0" aria-label="All numbers">'
        f"<table><thead><tr>{''.join(f'<th scope=col>{name}</th>' for name in heads)}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div></figure><script>{SCRIPT}</script>"
    )


def write_csv(app: Sphinx, _: Exception | None) -> None:
    """Write all rows beside the pages."""
    numbers().to_csv(Path(app.outdir, "_static", FILE), index=False)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and the file (called by Sphinx)."""
    app.add_directive("look-up", shows(lambda _: [nodes.raw("", page(), format="html")]))
    app.connect("build-finished", write_csv)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

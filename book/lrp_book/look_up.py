"""Sphinx extension: the paper's tables, number by number, beside what the committed runs gave.

The directive `look-up` puts Table 1, Table 2 for SST and IMDB, and Table A3, with what is counted as tabs.
Each of our numbers has its interval and n as a tooltip, and leads to its run at the end of the page.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import xarray as xr
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from lrp_book import ch09_real as real
from lrp_book.ch06_outlier import STATISTIC, with_and_without
from lrp_book.committed import Records, records
from lrp_book.say import number
from lrp_companion.lab.labelled import mean, r_with_loo
from lrp_companion.lab.load import MnistRun
from lrp_companion.lab.paper.published import paper_table
from lrp_companion.lab.paper.tables import (
    MAP_SUFFIXES,
    PAIR_NAMES,
    PAIRS,
    PAPER_METHODS,
    table1,
    table2,
    tableA3,
)
from lrp_companion.masks import path_masks
from lrp_companion.metrics import Interval
from lrp_companion.registry import label_of
from lrp_companion.schema import Protocol
from lrp_companion.show.tables import TABLE_CSS

RESULTS = Path(__file__).resolve().parents[2] / "results"
METHODS = ("ig", "rollout", "gradient-x-input", "attnlrp", "cp-lrp", "mask-gradient")


@dataclass(frozen=True)
class Reading:
    """What is counted: site, tokens as in a run (none: from its maps), as in chapter 6, form of maps."""

    site: str
    tokens: str
    counted: str
    form: str = "raw"

    @property
    def divided(self) -> bool:
        """Whether maps are divided by their sums."""
        return self.form == "sum-to-one"


READINGS = {
    "Divided by sums (as in the paper)": Reading("word+position", "all", "all", "sum-to-one"),
    "Words only": Reading("word", "no-special", "words"),
    "All tokens, positions": Reading("word+position", "all", "all"),
    "Tokens but [CLS], positions": Reading("word+position", "", "no [CLS]"),
    "Divided, without [CLS]": Reading("word+position", "", "no [CLS]", "sum-to-one"),
}
"""What is counted, by the title of its tab; the first is open."""
PATHS = {"front-to-back": "Front to back", "back-to-front": "Back to front", "single": "One layer alone"}
DATA = {"SST": ("sst2-12", "sst2"), "IMDB": ("imdb-12", "imdb")}


@dataclass(frozen=True)
class Cell:
    """A number of ours with the name of its run, or a number of the paper's without one."""

    value: Interval | float | None
    run: str = ""

    def html(self) -> str:
        """As a cell of a table; a dash where there is none.

        >>> Cell(0.52).html(), Cell(Interval(0.5, 0.4, 0.6, 9), "a/b").html()
        ('0.52', '<a href="#run-a-b" title="n = 9">0.50<span class="lrp-between"> [0.40, 0.60]</span></a>')
        """
        if self.value is None:
            return "–"
        if not isinstance(self.value, Interval):
            text = number(self.value)
            return f'<a href="#{anchor(self.run)}">{text}</a>' if self.run else text
        mean, between = number(self.value).split(" ", 1)
        shown = f'{mean}<span class="lrp-between"> {between}</span>'
        return f'<a href="#{anchor(self.run)}" title="n = {self.value.n}">{shown}</a>'


NOTHING = Cell(None)
CHAPTERS = {"mnist": "02_mnist_invariance", "maps/": "06_protocol_audit", "base/": "09_real_models"}
"""The page with more numbers of a run, by how its name begins; of the others it is that of chapter 5."""
Row = tuple[str, Sequence[Cell]]


def anchor(run: str) -> str:
    """The address of a run on the page."""
    return "run-" + run.replace("/", "-")


def markup(
    groups: Mapping[str, Sequence[str]], rows: Sequence[Row], *, caption: str, first: str = "method"
) -> str:
    """A table as HTML, headings in two rows."""
    spans = "".join(
        f'<th class="lrp-group" colspan="{len(names)}" scope="colgroup">{title}</th>'
        for title, names in groups.items()
    )
    heads = "".join(
        f'<th scope="col" class="lrp-number">{name}</th>' for of in groups.values() for name in of
    )
    body = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>'
        + "".join(f'<td class="lrp-number">{cell.html()}</td>' for cell in cells)
        + "</tr>"
        for name, cells in rows
    )
    told = html.escape(caption, quote=True)
    return (
        f'<figure class="lrp-table"><figcaption>{caption}</figcaption>'
        f'<div role="region" tabindex="0" aria-label="{told}"><table><thead><tr><td></td>{spans}</tr>'
        f'<tr><th scope="col">{first}</th>{heads}</tr></thead><tbody>{body}</tbody></table></div></figure>'
    )


BOTH = ("Pearson", "rank")


@lru_cache
def from_maps(folder: str, short: str, divided: bool) -> xr.DataArray:
    """r of a run that keeps its maps, by what is counted."""
    run = records(folder).with_maps(short)
    return with_and_without(run, tuple(name for name in run.methods if name in METHODS), divided=divided)


Found = tuple[xr.DataArray | None, str]
"""r of each example, if there is any, and the name of its run."""


def ours(kept: Records, short: str, method: str, reading: Reading, statistic: str) -> Found:
    """r with LOO of a method of one of our runs; from its maps where the run itself has none."""
    run = kept.text(short)
    if reading.tokens and method in run.methods:
        cell = {"site": reading.site, "tokens": reading.tokens, "map": reading.form, "statistic": statistic}
        at = {"removal": "attention-mask", "target": "logit", **cell}
        return r_with_loo(run, [method], **at).isel(explainer=0, drop=True), run.name
    r = from_maps(kept.folder, short, reading.divided)
    if method not in r.explainer:
        return None, ""
    at = {"explainer": method, "site": reading.site, "counted": reading.counted, "statistic": statistic}
    return r.sel(at, drop=True), f"maps/{run.name}"


def of_base(folder: str, task: str, method: str, reading: Reading, statistic: str) -> Found:
    """The same of MPNet: three trainings on SST-2, one on IMDB."""
    name, divided = "sst2-seed-*-maps", reading.divided
    if task == "sst2":
        r = real.trainings(folder, divided=divided)
    else:
        name, r = real.REVIEWS, real.reviews(folder, divided=divided)
        if method not in r.explainer:
            name = f"{real.REVIEWS}-maps"
            r = real.r_of(f"{folder}/base", name, divided=divided)
    if method not in r.explainer:
        return None, ""
    at = (reading.site, reading.counted)
    return real.at(r.sel(explainer=method, drop=True), at, statistic), f"base/{name}"


def agreement_rows(kept: Records, data: str, reading: Reading) -> list[Row]:
    """Table 2's r: the paper's, ours and MPNet's by both statistics; below, CP-LRP minus AttnLRP, paired."""
    short, task = DATA[data]
    printed = {row["method"]: row["loo_r"] for row in paper_table("table2") if row["dataset"] == data}
    told = {method: printed.get(PAPER_METHODS.get(method, "")) for method in METHODS}
    found = {
        method: [
            *(ours(kept, short, method, reading, statistic) for statistic in STATISTIC),
            *(of_base(kept.folder, task, method, reading, statistic) for statistic in STATISTIC),
        ]
        for method in METHODS
    }
    rows: list[Row] = [
        (
            label_of(method),
            [Cell(told[method]), *(NOTHING if r is None else Cell(mean(r), run) for r, run in found[method])],
        )
        for method in METHODS
    ]
    pairs = zip(found["cp-lrp"], found["attnlrp"], strict=True)
    between = [NOTHING if a is None or b is None else Cell(mean(a - b), run) for (a, run), (b, _) in pairs]
    theirs = printed[PAPER_METHODS["cp-lrp"]] - printed[PAPER_METHODS["attnlrp"]]
    return [*rows, ("CP-LRP − AttnLRP", [Cell(theirs), *between])]


def curve_rows(kept: Records, data: str) -> list[Row]:
    """Table 2's perturbation curves: the paper's, ours and MPNet's."""
    run, base = kept.text(DATA[data][0]), f"{kept.folder}/base"
    names = [f"{seed}-maps" for seed in (real.SEEDS if data == "SST" else [real.REVIEWS])]
    told = f"base/{names[0]}".replace("sst2-seed-0", "sst2-seed-*")

    def of_base(curve: str, method: str) -> Cell:
        each = [real.curves(base, name, curve).get(method) for name in names]
        if each[0] is None:
            return NOTHING
        of = xr.DataArray(each, dims=["training", "example"])
        return Cell(mean(of if len(each) > 1 else of[0]), told)

    return [
        (
            label_of(row["method"]),
            [
                cell
                for curve in ("lerf", "morf", "delta")
                for cell in (
                    Cell(row[f"{curve}, paper"]),
                    Cell(row[curve], run.name),
                    of_base(curve, "loo attention-mask" if row["method"] == "loo" else row["method"]),
                )
            ],
        )
        for row in table2(run)
    ]


def path_rows(kept: Records, data: str, path: str) -> list[Row]:
    """Table A3's r along one path: the paper's, ours and MPNet's, at the words and with all tokens."""
    out: list[Row] = []
    run = kept.text(DATA[data][0])
    counted = [one for one in READINGS.values() if one.tokens and not one.divided]
    readings = [Protocol(site=one.site, tokens=one.tokens) for one in counted]
    of_run = [
        {frozenset(row["layers"]): row for row in tableA3(run, protocol=one) if row["path"] == path}
        for one in readings
    ]
    folder, seeds = f"{kept.folder}/base", real.SEEDS if data == "SST" else (real.REVIEWS,)
    name = "base/sst2-seed-*-paths" if data == "SST" else f"base/{real.REVIEWS}-paths"
    base = [
        [real.path_means(folder, seed, path, tokens, statistic=by)[1:] for seed in seeds]
        for tokens, by in ((t, s) for t in ("words", "all") for s in STATISTIC)
    ]
    for step, mask in enumerate(path_masks(run.layers)[path]):
        rows = [of[frozenset(mask)] for of in of_run]
        cells = [Cell(rows[0]["r, paper"]), *(Cell(row["r"], run.name) for row in rows)]
        cells += [Cell(float(sum(one[step] for one in of) / len(of)), name) for of in base]
        out.append((rows[0]["bypassed"], cells))
    return out


def digit_rows(kept: Records, digits: MnistRun, form: str) -> list[Row]:
    """Table 1: each pair, the paper's r and ours."""
    return [
        (
            row["explainer"],
            [cell for pair in PAIRS for cell in (Cell(row[f"{pair}, paper"]), Cell(row[pair], digits.name))],
        )
        for row in table1(digits, map=form)
    ]


def tabs(pages: Mapping[str, str]) -> list[str]:
    """Tables as tabs, in MyST."""
    out = ["::::{tab-set}"]
    for title, page in pages.items():
        out += [f":::{{tab-item}} {title}", "```{raw} html", page, "```", ":::"]
    return [*out, "::::", ""]


def page(kept: Records) -> list[str]:
    """The page below its introduction, in MyST."""
    digits, out = kept.digits(), ["```{raw} html", f"<style>{TABLE_CSS}</style>", "```", ""]
    out += ["(look-up-1)=", "## Table 1: two graphs of one function", ""]
    both = ["paper", "ours"]
    pairs = dict.fromkeys(PAIR_NAMES.values(), both)
    forms = {"sum-to-one": "Divided by sums (as in the paper)", "raw": "Raw maps"}
    assert set(forms) == set(MAP_SUFFIXES)
    chapter = "[chapter 2](../notebooks/02_mnist_invariance.ipynb)"
    out += [
        f"MNIST, attention without softmax ({chapter}); five nets; Pearson only. "
        "The paper's left is Q(KᵀV) by its section 4.3.",
        "",
    ]
    out += tabs(
        {
            title: markup(pairs, digit_rows(kept, digits, form), caption=f"r of two maps; {title.lower()}")
            for form, title in forms.items()
        }
    )
    groups = {"paper": ["r"], "ours": BOTH, "MPNet": BOTH}
    for data in DATA:
        named = "SST-2" if data == "SST" else "IMDB"
        out += [f"(look-up-2-{data.lower()})=", f"## Table 2: {named}", ""]
        out += [
            "The paper has one number for each method, of maps divided by their sums; it does not say "
            "which tokens count. So its column is the same in every tab."
        ]
        if data == "IMDB":
            drawn = len(real.part(f"{kept.folder}/base", f"{real.REVIEWS}-maps")["example"])
            n = len(real.tokens_of(kept.folder))
            out += [f"MPNet here is one training, on {n} reviews; IG and curves on the first {drawn} drawn."]
        out += [""]
        pages = {
            title: markup(
                groups,
                agreement_rows(kept, data, reading),
                caption=f"Mean r with LOO, {named}; {title[0].lower() + title[1:]}",
            )
            for title, reading in READINGS.items()
        }
        curves = dict.fromkeys(("LeRF (higher is better)", "MoRF (lower)", "Δ (higher)"), [*both, "MPNet"])
        caption = f"Mean logit while tokens are taken away, {named}"
        pages["Perturbation curves"] = markup(curves, curve_rows(kept, data), caption=caption)
        out += tabs(pages)
    for data in DATA:
        named = "SST-2" if data == "SST" else "IMDB"
        out += [f"(look-up-a3-{data.lower()})=", f"## Table A3: layers bypassed, {named}", ""]
        told = "From AttnLRP, layer by layer, to CP-LRP. Our run of masks has Pearson only."
        if data == "IMDB":
            paths = len(real.part(f"{kept.folder}/base", f"{real.REVIEWS}-paths")["example"])
            told += f" MPNet: the first {paths} reviews drawn."
        out += [told, ""]
        groups = {"paper": ["r"], "ours, Pearson": ["words", "all"], "MPNet, words": BOTH, "MPNet, all": BOTH}
        out += tabs(
            {
                title: markup(
                    groups,
                    path_rows(kept, data, path),
                    first="layers bypassed",
                    caption=f"Mean r with LOO, {named}; {title.lower()}",
                )
                for path, title in PATHS.items()
            }
        )
    return [*out, "(look-up-runs)=", "## The runs", "", "```{raw} html", runs(kept), "```"]


def runs(kept: Records) -> str:
    """What the numbers rest on: model, data with their fingerprint, n, and the folder in `results/`."""
    rows: list[tuple[str, str, str, int]] = []
    for name, run in [*kept.runs.items(), *((f"maps/{name}", run) for name, run in kept.maps.items())]:
        if run.name in (*(kept.text(short).name for short, _ in DATA.values()), kept.digits().name):
            rows.append((name, run.model, str(run.manifest["data"]), run.n))
    reviews = (real.REVIEWS, *(f"{real.REVIEWS}-{kind}" for kind in ("maps", "paths")))
    for name in ("sst2-seed-*-maps", "sst2-seed-*-paths", *reviews):
        first = name.replace("*", "0")
        config = real.manifest(f"{kept.folder}/base", first)["config"]
        data = f"{config['data']}, fingerprint {config['fingerprint']}"
        n = len(real.part(f"{kept.folder}/base", first)["example"])
        if name == real.REVIEWS:
            data, n = f"{data}; with -rest", len(real.tokens_of(kept.folder))
        rows.append((f"base/{name}", "MPNet", data, n))
    body = "".join(
        f'<tr id="{anchor(name)}"><th scope="row"><code>{name}</code></th><td>{html.escape(model)}</td>'
        f'<td>{html.escape(data)}</td><td class="lrp-number">{n}</td><td>{_more(name)}</td></tr>'
        for name, model, data, n in rows
    )
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("in results/", "model", "data", "n", "more"))
    return (
        '<figure class="lrp-table"><div role="region" tabindex="0" aria-label="The runs"><table><thead>'
        f"<tr>{heads}</tr></thead><tbody>{body}</tbody></table></div></figure>"
    )


def _more(name: str) -> str:
    pages = [page for start, page in CHAPTERS.items() if name.startswith(start)]
    page = (*pages, "05_reproduction")[0]
    return f'<a href="../notebooks/{page}.html">chapter {int(page[:2])}</a>'


class LookUp(SphinxDirective):
    """The tables of the page."""

    def run(self) -> list[nodes.Node]:
        """Return the tables as sections with tabs."""
        return self.parse_text_to_nodes("\n".join(page(records(RESULTS))), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive("look-up", LookUp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

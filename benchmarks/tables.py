"""`python -m benchmarks.tables`: what pages quote of the records in `NAMES`.

A page holds, for example, `<!-- peers: NAME -->` and `<!-- end -->`; the part of that name replaces what
stands between.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import pages
from benchmarks.lengths import crossing
from benchmarks.pages import number

Record = Mapping[str, Any]
NAMES = ("peers", "lengths", "long_context", "precision", "answers")
PAGES = tuple(pages.ROOT / name for name in ("book/which_method.md", "book/performance.md", "README.md"))
_PART = re.compile(rf"(<!-- ({'|'.join(NAMES)}): (\w+) -->\n).*?(<!-- end -->)", flags=re.S)
_LABELS = {"attnlrp": "AttnLRP"}


def filled(text: str, records: Mapping[str, Record]) -> str:
    """The text with its generated parts made anew."""
    return _PART.sub(lambda mark: f"{mark[1]}{PARTS[mark[2], mark[3]](records[mark[2]])}\n{mark[4]}", text)


def load() -> dict[str, Record]:
    """The records that are there, by name."""
    files = {name: pages.ROOT / "results" / f"{name}.json" for name in NAMES}
    return {name: pages.load(file) for name, file in files.items() if file.is_file()}


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows))


def _lengths_table(record: Record) -> str:
    """Ratios of times by length, and r with LOO."""
    names = list(record["rows"][0]["ratio"])
    header = ["text of", "LOO", *(f"LOO / {_label(name)}" for name in names)]
    header += [f"mask gradient's r with LOO, {name}" for name in ("K = 1", "K = 8")]
    return _table(header, [_length_cells(row, names) for row in record["rows"]])


def _length_cells(row: Record, names: list[str]) -> list[str]:
    ratios = [f"**{number(x)}**" if (x := row["ratio"][name]["median"]) < 1 else number(x) for name in names]
    seconds = f"{1000 * row['seconds']['loo']:,.0f} ms"
    agreed = (row["r"][name] for name in ("K = 1", "K = 8"))
    return [f"{row['tokens']} tokens", seconds, *ratios, *("-" if r is None else f"{r:.2f}" for r in agreed)]


def _label(name: str) -> str:
    return _LABELS.get(name, f"mask gradient, {name}")


def _crossing_table(record: Record) -> str:
    """Between which lengths each method becomes cheaper than LOO."""
    names = record["rows"][0]["ratio"]
    rows = [[_label(name), _crossing_words(record["rows"], name)] for name in names]
    return _table(["method", "cheaper than exact LOO from a length"], rows)


def _crossing_words(rows: list[Any], name: str) -> str:
    below, above = crossing(rows, name)
    if above is None:
        return f"at no length measured, up to {rows[-1]['tokens']} tokens, in every repeat"
    if below is None:
        shortest = above == rows[0]["tokens"]
        return (
            f"at every length measured, from {above} tokens on" if shortest else f"{above} tokens, or fewer"
        )
    return f"between {below} and {above} tokens"


def _lengths_short(record: Record) -> str:
    """One sentence on K = 8."""
    words = _crossing_words(record["rows"], "K = 8")
    said = f"The mask gradient with K = 8 becomes cheaper than exact LOO {words}"
    return f"{said} (measured on another machine)."


def _lengths_setting(record: Record) -> str:
    c, h, v = record["config"], record["hardware"], record["versions"]
    return (
        f"Measured with `{c['model']}` in {c['dtype']} on an {h['processor']} (threads: {h['threads']}); "
        f"{c['texts']} texts for each length, of {c['data']}; PyTorch {v['torch']}. {c['repeats']} repeats, "
        "sides in turn; medians."
    )


def _peers_table(record: Record) -> str:
    """The largest difference of each method on each model."""
    rows = [
        [
            row["method"],
            row["peer"],
            f"{row['model']}, {row['layers']} layers of {row['hidden']}",
            f"{row['scores']:,} in {row['texts']} texts",
            f"{row['difference']:.1e}",
            f"{row['relative']:.1e}",
        ]
        for row in record["rows"]
    ]
    header = ["method", "peer", "model", "scores", "largest difference", "over the largest score"]
    return _table(header, rows)


def _peers_short(record: Record) -> str:
    """One sentence: the largest differences over all models."""
    largest: dict[tuple[str, str], float] = {}
    for row in record["rows"]:
        key = row["method"], row["peer"]
        largest[key] = max(largest.get(key, 0.0), row["difference"])
    models = len({row["model"] for row in record["rows"]})
    listed = "; ".join(f"{method} and {peer}, {value:.1e}" for (method, peer), value in largest.items())
    return f"The largest differences in {record['config']['dtype']}, over {models} models: {listed}."


def _peers_setting(record: Record) -> str:
    c, v = record["config"], record["versions"]
    theirs = ", ".join(f"{name} {value}" for name, value in v["LXT's environment"].items())
    ours = ", ".join(f"{name} {value}" for name, value in v["here"].items())
    return (
        f"In {c['dtype']}, without a stabiliser (epsilon {c['epsilon']:g}), seed {c['seed']}, "
        f"{c['texts']} texts of {c['data']}. LXT ran with {theirs}; the package and captum with {ours}; IG "
        f"with {c['n_steps']} steps."
    )


def _families_table(record: Record) -> str:
    """The largest difference to LXT over the largest score, by family, method and change of LXT."""
    rows = record["families"]["rows"]
    changes = list(rows[0]["changes"])
    cells = [
        [row["family"], row["method"], *(_apart(row["changes"][name]) for name in changes)] for row in rows
    ]
    return _table(["family", "method", *(f"LXT, {name}" for name in changes)], cells)


def _apart(change: Record) -> str:
    return "does not run" if "failed" in change else f"{change['relative']:.0e}"


def _families_setting(record: Record) -> str:
    """How the families were compared, and the least r."""
    c, v = record["families"]["config"], record["families"]["versions"]
    known = [row["changes"]["as it comes"] for row in record["families"]["rows"]]
    least = min(change["r"] for change in known if "r" in change)
    theirs = ", ".join(f"{name} {value}" for name, value in v["LXT's environment"].items())
    ours = ", ".join(f"{name} {value}" for name, value in v["here"].items())
    return (
        f"Largest difference over the largest score. Random networks of {c['layers']} layers, "
        f"{c['hidden']} wide, in {c['dtype']}; {c['texts']} texts of random tokens, seed {c['seed']}, "
        f"without a stabiliser here. The least r of a text with LXT as it comes is 1 - {1 - least:.0e}. LXT "
        f"ran with {theirs}; the package with {ours}."
    )


_KINDS = {"forward": "forward pass", "attnlrp": "AttnLRP", "mask-gradient": "mask gradient"}


def _quiet(record: Record) -> bool:
    """Whether the clock of every row agrees with the processor's time, so that other work did not slow it."""
    return all(row["seconds"] < 1.05 * row["processor"] for row in record["rows"])


def _long_table(record: Record) -> str:
    """Memory and time of each kind, beside a plain forward pass."""
    time, title = ("seconds", "wall time") if _quiet(record) else ("processor", "processor time")
    plain = {row["tokens"]: row for row in record["rows"] if row["kind"] == "forward"}
    cells = [
        [
            f"{row['tokens']:,}",
            _KINDS[row["kind"]],
            f"{row['peak'] / 2**30:.1f} GiB",
            f"{(row['peak'] - row['before']) / row['tokens'] / 2**10:,.0f} KiB",
            f"{row[time]:.0f} s",
            number(row[time] / plain[row["tokens"]][time]),
        ]
        for row in record["rows"]
    ]
    header = [
        "tokens",
        "what",
        "peak of all",
        "beyond the weights, per token",
        title,
        "over forward",
    ]
    return _table(header, cells)


def _long_setting(record: Record) -> str:
    c, h, v = record["config"], record["hardware"], record["versions"]
    parameters = record["rows"][0]["parameters"]
    beside = (
        "where clock and processor time agree to 5 %"
        if _quiet(record)
        else "shared with other work, hence the processor's time and not the clock's"
    )
    return (
        f"A random network in Llama's shape: {c['layers']} layers, {c['hidden_size']:,} wide, "
        f"{c['num_attention_heads']} heads ({c['num_key_value_heads']} of keys), {c['intermediate_size']:,} "
        f"inside, {parameters / 1e6:,.0f} million parameters (the vocabulary is cut to "
        f"{c['vocabulary']:,}), in {c['dtype']}, one layer's tape at a time; {c['threads']} thread of an "
        f"{h['cpu']}, {beside}; PyTorch "
        f"{v['torch']}, transformers {v['transformers']}."
    )


def _precision_table(record: Record) -> str:
    """r with float32 and the differences, by method."""
    cells = [
        [
            row["method"],
            row["dtype"],
            f"{row['r']:.5f}",
            f"{row['least r']:.4f}",
            f"{100 * row['difference']:.1f} %",
            f"{100 * row['largest difference']:.0f} %",
        ]
        for row in record["rows"]
    ]
    header = ["method", "number format", "mean r", "least r", "median difference", "largest difference"]
    return _table(header, cells)


def _precision_setting(record: Record) -> str:
    c, v = record["config"], record["surroundings"]["versions"]
    first = "" if f": {c['texts']} texts" in c["data"] else f"the first {c['texts']} of "
    return (
        f"`{c['model']}` on {first}{c['data']}; r with the same method in float32, all tokens, "
        f"and the largest difference in a text as a part of its largest score, median and maximum; "
        f"the class is that of float32; on a processor, PyTorch {v['torch']}."
    )


def _answers_short(record: Record) -> str:
    """What an answer of several tokens costs here and there, and whether the scores agree."""
    c, loo = record["config"], record["loo"]
    best, cached = (
        "{median:.1f} ({low:.1f} to {high:.1f})".format(**loo[f"time, {name} over package"])
        for name in ("captum", "captum cached")
    )
    versions, r = record["versions"], loo["r, token by token with a cache"]
    sampled = record["shapley"]["r of all subsets with sampled orders"]
    return (
        f"An answer of {c['answer tokens']} tokens after {c['prompt tokens']}, a random Llama of "
        f"{c['layers']} layers, float32, one thread: LOO differs from captum {versions['captum']}'s by at "
        f"most {loo['difference']:.0e}, of a largest score of {loo['largest']:.2f}. captum takes {best} "
        "times as long with the whole answer in one forward, and "
        f"{cached} times as its default does, token by token with a cache; there, with transformers "
        f"{versions['transformers']}, its scores are others (r {r:.2f}; without the cache they agree). "
        f"Shapley values, all subsets beside {c['samples']} sampled orders: r {sampled:.2f}."
    )


PARTS: dict[tuple[str, str], Callable[[Record], str]] = {
    ("lengths", "table"): _lengths_table,
    ("lengths", "crossing"): _crossing_table,
    ("lengths", "short"): _lengths_short,
    ("lengths", "setting"): _lengths_setting,
    ("peers", "table"): _peers_table,
    ("peers", "short"): _peers_short,
    ("peers", "setting"): _peers_setting,
    ("peers", "families"): _families_table,
    ("peers", "families_setting"): _families_setting,
    ("long_context", "table"): _long_table,
    ("long_context", "setting"): _long_setting,
    ("answers", "short"): _answers_short,
    ("precision", "table"): _precision_table,
    ("precision", "setting"): _precision_setting,
}


def main() -> int:
    """Fill the pages from the records."""
    records = load()
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), records), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

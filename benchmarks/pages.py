"""Tables of the book's performance page and of the README, made from the record alone.

A page holds `<!-- benchmarks: NAME -->` and `<!-- end -->`; the part of that name replaces what stands
between.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "results" / "benchmarks.json"
PAGES = (ROOT / "book" / "performance.md", ROOT / "README.md")
_PART = re.compile(r"(<!-- benchmarks: (\w+) -->\n).*?(<!-- end -->)", flags=re.S)

Record = Mapping[str, Any]


def load(path: Path = RECORD) -> dict[str, Any]:
    """Read the record."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(record: Record, out: Path) -> None:
    """Write the record so that it is there whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f"{out.name}.{os.getpid()}.part")
    part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(part, out)


def plain(value: Any) -> Any:
    """Numbers to five digits, NaN as null."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.5g}")
    return value


def fill(record: Record, pages: tuple[Path, ...] = PAGES) -> None:
    """Replace every generated part of the pages that are there."""
    for page in pages:
        if page.is_file():
            page.write_text(filled(page.read_text(encoding="utf-8"), record), encoding="utf-8")


def filled(text: str, record: Record) -> str:
    """The text with its generated parts made anew.

    >>> filled("<!-- benchmarks: missed -->\nold\n<!-- end -->", {"rows": []})
    '<!-- benchmarks: missed -->\nNothing was measured.\n<!-- end -->'
    """
    return _PART.sub(lambda marked: f"{marked[1]}{PARTS[marked[2]](record)}\n{marked[3]}", text)


def reached(row: Record) -> bool | None:
    """Whether the median meets the goal; None without a goal."""
    if row["goal"] is None:
        return None
    median, goal = row["ratio"]["median"], row["goal"]
    return median <= goal if row["sense"] == "at most" else median >= goal


def number(value: float) -> str:
    """Three digits, as many as a ratio of times is worth.

    >>> number(0.8567), number(3.4567), number(23.456), number(1234.5)
    ('0.857', '3.46', '23.5', '1,234')
    """
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2 if value >= 1 else 3}f}"


def spread(row: Record) -> str:
    """The median with the lowest and highest repeat, or the one value there is."""
    r = row["ratio"]
    span = "" if r["low"] == r["high"] else f" ({number(r['low'])} to {number(r['high'])})"
    return number(r["median"]) + span


def line(row: Record) -> str:
    """One row as a line for the terminal."""
    verdict = "reached" if reached(row) else "NOT reached"
    goal = "" if row["goal"] is None else f", goal {row['sense']} {row['goal']:g}: {verdict}"
    return f"{row['what']} against {row['against']}: {spread(row)}{goal}"


def growth_line(curve: Record) -> str:
    """One curve as a line for the terminal."""
    exponents = f"exponent {curve['exponent']:.2f}, arithmetic {curve['expected']:.2f}"
    return f"{curve['what']}, along {curve['along']}: {exponents}"


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows))


def _setting(record: Record) -> str:
    c, h, v = record["config"], record["hardware"], record["versions"]
    quick = "**A quick run, to see that everything works: its times mean little.** " if c["quick"] else ""
    part = f"**Only a part was measured: {', '.join(c['only'])}.** " if c.get("only") else ""
    again = f" Measured again later, in the same setting: {', '.join(c['again'])}." if c.get("again") else ""
    time = h.get("time", "by the clock")
    return (
        f"{quick}{part}Measured with `{c['model']}` in {c['dtype']} on an {h['processor']} "
        f"(threads: {h['threads']}), time {time}; {c['data']}; PyTorch {v['torch']}, transformers "
        f"{v['transformers']}, captum {v['captum']}, Python {v['python']}. "
        f"{c['repeats']} repeats, sides alternating; the whole took {number(record['seconds'])} s.{again}"
    )


def _goals(record: Record) -> str:
    rows = [
        [
            row["what"],
            row["against"],
            f"{row['sense']} {row['goal']:g}",
            spread(row),
            "yes" if reached(row) else "**no**",
            row.get("note", ""),
        ]
        for row in record["rows"]
        if row["goal"] is not None
    ]
    return _table(["what", "against", "goal", "result", "reached", "measured on"], rows)


SHORT = (
    ("LOO", "plain loop"),
    ("LOO, bfloat16", "captum FeatureAblation"),
    ("AttnLRP, 64 tokens", "autograd with fused attention"),
    ("AttnLRP and CP-LRP, 64 tokens", "autograd with fused attention"),
    ("mask gradient, K = 8", "exact LOO"),
    ("all 4,096 masks, 12 layers", "one run per mask, batched the same"),
)
"""What the README shows: the common calls, also where they are slower than their peer."""


def _five(record: Record) -> str:
    rows = [
        [row["what"], row["against"], f"{row['sense']} {row['goal']:g}", spread(row)]
        for row in record["rows"]
        if (row["what"], row["against"]) in SHORT
    ]
    return _table(["what", "against", "goal", "result"], rows)


def _limits(record: Record) -> str:
    rows = [
        [row["what"], spread(row), row.get("note", "")]
        for row in record["rows"]
        if "arithmetic limit" in row["against"]
    ]
    return _table(["what", "fraction of the limit", "note"], rows)


def _equal(record: Record) -> str:
    rows = [
        [row["what"], row["against"], f"{row['equal']:.1e}", f"{row['tolerance']:g}"]
        for row in record["rows"]
        if "equal" in row
    ]
    rows += [
        [row["what"], "LOO in float32, mean r", f"{row['r']:.5f}", "-"]
        for row in record["rows"]
        if "r" in row and "loop" in row["against"]
    ]
    return _table(["what", "against", "difference", "allowed"], rows)


def _growth(record: Record) -> str:
    rows = []
    for curve in record["growth"]:
        points = ", ".join(f"{x:,}: {_time(s)}" for x, s in zip(curve["x"], curve["seconds"], strict=True))
        rows.append(
            [curve["what"], curve["along"], points, f"{curve['exponent']:.2f}", f"{curve['expected']:.2f}"]
        )
    return _table(["what", "along", "time", "exponent", "of its arithmetic"], rows)


def _time(seconds: float) -> str:
    return f"{number(seconds)} s" if seconds >= 1 else f"{number(1000 * seconds)} ms"


def _missed(record: Record) -> str:
    judged = [row for row in record["rows"] if reached(row) is not None]
    missed = [row for row in judged if not reached(row)]
    if not judged:
        return "Nothing was measured."
    if not missed:
        return f"All {len(judged)} goals that were measured are reached."
    lines = [
        f"- {row['what']} against {row['against']}: {spread(row)}, goal {row['sense']} {row['goal']:g}."
        for row in missed
    ]
    return "Not reached:\n\n" + "\n".join(lines)


PARTS: dict[str, Callable[[Record], str]] = {
    "setting": _setting,
    "goals": _goals,
    "five": _five,
    "limits": _limits,
    "equal": _equal,
    "growth": _growth,
    "missed": _missed,
}

"""Does the effect depend on the example? Length, confidence, label and tags, corrected for multiple tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lrp_book.analysis.significance import group_differences, holm, rank_correlations
from lrp_companion.checks import InputError
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.paper.protocol_grid import Row, needs_text
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import PROTOCOLS, Protocol

EXAMPLE_FEATURES = ("length", "confidence", "label", "correct")


def features(run: TextRun) -> dict[str, np.ndarray]:
    """Features of each example.

    `length` in tokens, `confidence` (probability of the predicted class), `label`, and whether the prediction
    is `correct` (1 or 0).
    """
    logits = run.logits()
    return {
        "length": run.example_column("tokens").astype(np.float64),
        "confidence": 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1),
        "label": run.example_column("label").astype(np.float64),
        "correct": (run.example_column("label") == run.example_column("target")).astype(np.float64),
    }


def subgroups(
    runs: Sequence[TextRun],
    *,
    a: str = "cp-lrp",
    b: str = "attnlrp",
    protocols: Mapping[str, Protocol] = PROTOCOLS,
) -> list[Row]:
    """Does the paired difference `a - b` depend on the example? All runs, protocols and features together.

    For length and confidence the effect is Spearman's rank correlation of the difference with the feature;
    for label and correct the mean difference where the feature is 1 minus that where it is 0. Intervals are
    bootstrap intervals (ranks are computed once). p is from 10,000 permutations of the feature; `p, Holm` is
    corrected for multiple tests over all rows (Holm 1979).

    Returns
    -------
    list
        Rows `run`, `protocol`, `feature`, `what`, `effect` (interval), `groups` (sizes: 0 and 1, or None),
        `p`, `p, Holm`. A feature that is the same for all examples has no row.
    """
    rows: list[Row] = []
    for run in runs:
        needs_text("subgroups", run)
        known = features(run)
        for differences in _by_examples(run, a, b, protocols):
            for feature, values in known.items():
                rows += _feature_rows(run.name, feature, values, differences)
    _correct(rows)
    return rows


def _by_examples(
    run: TextRun, a: str, b: str, protocols: Mapping[str, Protocol]
) -> Iterable[dict[str, np.ndarray]]:
    """Differences by protocol; protocols that are defined on the same examples are tested together."""
    groups: dict[bytes, dict[str, np.ndarray]] = {}
    for name, protocol in protocols.items():
        difference = run.r(a, protocol) - run.r(b, protocol)
        groups.setdefault(np.isnan(difference).tobytes(), {})[name] = difference
    return groups.values()


def _feature_rows(
    run: str, feature: str, values: np.ndarray, differences: Mapping[str, np.ndarray]
) -> list[Row]:
    """Rows of `subgroups` of one feature; none where it is the same for all examples."""
    y = np.stack(list(differences.values()), 1)
    keep = ~np.isnan(y[:, 0])
    x, y = values[keep], y[keep]
    if len(x) < 2 or np.ptp(x) == 0:
        return []
    ordered = feature in ("length", "confidence")
    tests = rank_correlations(x, y) if ordered else group_differences(x, y)
    groups = None if ordered else (int((x == 0).sum()), int((x == 1).sum()))
    what = "rank correlation" if ordered else f"{feature} 1 - {feature} 0"
    rows = []
    for protocol, column, (effect, p) in zip(differences, y.T, tests, strict=True):
        if np.ptp(column) > 0:
            row: Row = {"run": run, "protocol": protocol, "feature": feature, "what": what}
            effect = replace(effect, undefined=int((~keep).sum()))
            rows.append({**row, "effect": effect, "groups": groups, "p": p})
    return rows


def _correct(rows: Sequence[Row]) -> None:
    """Add `p, Holm` to rows that have `p`."""
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p, Holm"] = corrected


def tag_effects(differences: Mapping[str, np.ndarray], tags: Sequence[Sequence[str]]) -> list[Row]:
    """Does a paired difference depend on what a text tests? Texts with a tag against the others, for each
    tag.

    Parameters
    ----------
    differences : by protocol, one number per text, such as r of CP-LRP minus r of AttnLRP; NaN where
        undefined.
    tags : of each text, such as ("negation",); a text may have several.

    Returns
    -------
    list
        Rows `protocol`, `tag`, `with tag` (the mean of these texts), `effect` (an interval of that mean minus
        the mean of the others), `groups` (texts without and with the tag), `p` from 10,000 permutations, and
        `p, Holm`, corrected over all rows. A tag that fewer than two texts have, or all but fewer than two,
        has no row.

    Raises
    ------
    InputError : not one difference per text.

    >>> differences = {"words only (default)": np.array([0.0, 0.1, 0.5, 0.7])}
    >>> rows = tag_effects(differences, [["plain"], [], ["irony"], ["irony"]])
    >>> round(rows[0]["effect"].mean, 6)
    0.55
    """
    rows: list[Row] = []
    for protocol, values in differences.items():
        if len(values) != len(tags):
            got = f"{len(values)} differences for {len(tags)} texts"
            hint = "pass the tags of the texts that were compared"
            raise InputError("tag_effects", got=got, expected="one for each", hint=hint)
        keep = ~np.isnan(values)
        for tag in sorted({tag for text in tags for tag in text}):
            x = np.array([float(tag in text) for text in tags])[keep]
            sizes = int((x == 0).sum()), int(x.sum())
            if min(sizes) < 2:
                continue
            ((effect, p),) = group_differences(x, values[keep][:, None])
            row: Row = {"protocol": protocol, "tag": tag, "with tag": bootstrap_mean(values[keep][x == 1])}
            row["effect"] = replace(effect, undefined=int((~keep).sum()))
            rows.append({**row, "groups": sizes, "p": p})
    _correct(rows)
    return rows

"""Does the effect depend on the example? Length, confidence and label, corrected for looking many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lrp_companion.analysis.protocol_grid import Row, needs_text
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.significance import group_differences, holm, rank_correlations
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import PROTOCOLS, InputError, Protocol

EXAMPLE_FEATURES = ("length", "confidence", "label", "correct")


def features(run: TextRun) -> dict[str, np.ndarray]:
    """What is known of each example: `length` in tokens, `confidence` (probability of the predicted class),
    `label`, `correct`.
    """
    logits = run.logits()
    return {
        "length": run.example_column("tokens").astype(np.float64),
        "confidence": 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1),
        "label": run.example_column("label").astype(np.float64),
        "correct": (run.example_column("label") == run.example_column("target")).astype(np.float64),
    }


def subgroups(
    runs: Sequence[TextRun], *, a: str = "cp-lrp", b: str = "attnlrp", protocols: Mapping[str, Protocol] = PROTOCOLS
) -> list[Row]:  # fmt: skip
    """Does the paired difference `a - b` depend on the example? Every run, protocol and feature, corrected for
    looking many times.

    For length and confidence the effect is Spearman's rank correlation of the difference with the feature;
    for label and correct the mean difference where the feature is 1 minus that where it is 0. Intervals are
    bootstrap intervals (ranks are taken once). p is from 10,000 permutations of the feature; `p, Holm` is
    corrected over all rows (Holm 1979).

    Returns
    -------
    list
        Rows `run`, `protocol`, `feature`, `what`, `effect` (interval), `groups` (sizes: 0 and 1, or None),
        `p`, `p, Holm`. A feature that is the same for all examples has no row.
    """
    out: list[Row] = []
    for run in runs:
        needs_text("subgroups", run)
        known = features(run)
        # Protocols that are defined for the same examples are looked at together.
        by_examples: dict[bytes, dict[str, np.ndarray]] = {}
        for name, protocol in protocols.items():
            difference = run.r(a, protocol) - run.r(b, protocol)
            by_examples.setdefault(np.isnan(difference).tobytes(), {})[name] = difference
        for differences in by_examples.values():
            keep = ~np.isnan(next(iter(differences.values())))
            y = np.stack(list(differences.values()), 1)[keep]
            for feature, values in known.items():
                x = values[keep]
                if len(x) < 2 or np.ptp(x) == 0:
                    continue
                ordered = feature in ("length", "confidence")
                found = rank_correlations(x, y) if ordered else group_differences(x, y)
                groups = None if ordered else (int((x == 0).sum()), int((x == 1).sum()))
                what = "rank correlation" if ordered else f"{feature} 1 - {feature} 0"
                for name, column, (effect, p) in zip(differences, y.T, found, strict=True):
                    if np.ptp(column) == 0:
                        continue
                    effect = Interval(effect.mean, effect.low, effect.high, effect.n, int((~keep).sum()))
                    row = {
                        "run": run.name,
                        "protocol": name,
                        "feature": feature,
                        "what": what,
                        "effect": effect,
                        "groups": groups,
                    }
                    out.append({**row, "p": p})
    for row, corrected in zip(out, holm([row["p"] for row in out]), strict=True):
        row["p, Holm"] = corrected
    return out


def tag_effects(differences: Mapping[str, np.ndarray], tags: Sequence[Sequence[str]]) -> list[Row]:
    """Does a paired difference depend on what a text tests? Mean over the texts with a tag minus that over
    the others, tag by tag.

    Parameters
    ----------
    differences : by protocol, one number per text, such as r of CP-LRP minus r of AttnLRP; NaN where
        undefined.
    tags : of each text, such as ("negation",); a text may have several.

    Returns
    -------
    list
        Rows `protocol`, `tag`, `with tag` (the mean of these texts), `effect` (interval), `groups` (texts
        without and with the tag), `p` from 10,000 permutations, and `p, Holm`, corrected over all rows. A tag
        that fewer than two texts have, or all but fewer than two, has no row.

    Raises
    ------
    InputError : not one difference per text.

    >>> tag_effects({"words only (default)": np.array([0.0, 0.1, 0.5, 0.7])}, [["plain"], [], ["irony"], ["irony"]])[0]["effect"].mean.__round__(6)
    0.55
    """
    rows: list[Row] = []
    for protocol, values in differences.items():
        if len(values) != len(tags):
            hint = "pass the tags of the texts that were compared"
            raise InputError(
                "tag_effects",
                got=f"{len(values)} differences for {len(tags)} texts",
                expected="one for each",
                hint=hint,
            )
        keep = ~np.isnan(values)
        for tag in sorted({own for text in tags for own in text}):
            x = np.array([float(tag in text) for text in tags])[keep]
            sizes = int((x == 0).sum()), int(x.sum())
            if min(sizes) < 2:
                continue
            ((effect, p),) = group_differences(x, values[keep][:, None])
            effect = Interval(effect.mean, effect.low, effect.high, effect.n, int((~keep).sum()))
            inside = bootstrap_mean(values[keep][x == 1])
            rows.append(
                {
                    "protocol": protocol,
                    "tag": tag,
                    "with tag": inside,
                    "effect": effect,
                    "groups": sizes,
                    "p": p,
                }
            )
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p, Holm"] = corrected
    return rows

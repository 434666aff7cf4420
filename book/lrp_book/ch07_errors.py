"""Chapter 7: passes spent step by step, and where the mask gradient, or LOO itself, fails: on a model and on
records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import matplotlib as mpl
import numpy as np

from lrp_book.labels import finished, method_label
from lrp_book.significance import features, holm, rank_correlations
from lrp_companion.checks import InputError, whole
from lrp_companion.lab.load import TextRun
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import explain
from lrp_companion.methods.common import check_targets, classes_of, to_numpy
from lrp_companion.methods.mask_gradient import (
    default_nodes,
    gradients_at,
    integrate,
    plan,
    quadrature_rows,
)
from lrp_companion.methods.perturbation import kept_logits
from lrp_companion.metrics import Interval, agreement, bootstrap_mean
from lrp_companion.metrics.faithfulness import relative_error
from lrp_companion.schema import TOKEN_CHOICES, Protocol, counted
from lrp_companion.show import canvas
from lrp_companion.show.palette import SPARE
from lrp_companion.show.tables import Table, table

Row = dict[str, Any]


# -- passes, step by step --------------------------------------------------------------------------------


def anytime_maps(
    clf: Classifier,
    texts: str | Sequence[str],
    *,
    seed: int = 0,
    target: int | Sequence[int] | None = None,
    progress: bool | None = None,
) -> list[Row]:
    """Maps of each text at step p = 0..T of three ways to spend passes, and LOO `f(x) - f(x without i)`.

    "hybrid": the mask gradient, then LOO for the p tokens with the largest |gradient|,
    `attribute(method="hybrid", exact=p)`; "groups": the mask gradient with p groups,
    `attribute(method="mask-gradient", groups=p)`, at step 0 the one of step 1; "random": LOO for p tokens
    drawn at random and their mean for the others, `attribute(method="sampled-loo", budget=p)`, at step 0
    zeros. LOO is by the attention mask, of the logit; T counts special tokens. Each text is run once in every
    way that a step needs: LOO for all of its tokens, and the gradient at each distinct mask.

    Parameters
    ----------
    seed : of the random draw; step p + 1 keeps the tokens of step p.
    target : as for `attribute`.

    Returns
    -------
    list
        A dict per text: `tokens`; `special` (T,); `label`, the explained class; `loo` (T,) and `forwards`,
        what LOO costs; and under `ways`, by way, a list of T + 1 steps, each a dict of `scores` (T,),
        `forwards` and `backwards` (passes so far), `exact` (places of the tokens that have LOO's own value),
        and by tokens ("no-special", "all") `r`, Pearson's with LOO (NaN where undefined), and `error`, sum |R
        - LOO| / sum |LOO|.
    """
    encoded = clf.encode(texts)
    targets = check_targets(target, len(encoded), clf.labels)
    reference = explain("loo", clf, encoded, targets, progress=progress)
    plans = []
    for text in encoded:
        ways = [plan(len(text), k, default_nodes(k), None) for k in range(1, len(text) + 1)]
        plans.append(
            [(quadrature_rows(groups, nodes), groups, nodes, weights) for groups, nodes, weights in ways]
        )
    jobs = {(k, row.tobytes()): (k, row) for k, ways in enumerate(plans) for rows, *_ in ways for row in rows}
    predicted = [record.target for record in reference]
    gradients = gradients_at(clf, encoded, list(jobs.values()), predicted, progress=progress)
    known = {key: gradient for key, (gradient, *_) in zip(jobs, gradients, strict=True)}
    out = []
    for k, (text, record) in enumerate(zip(encoded, reference, strict=True)):
        exact, count = record.scores, len(text)

        def step(
            scores: np.ndarray,
            forwards: int,
            backwards: int,
            places: Any = (),
            *,
            exact: np.ndarray = exact,
            special: np.ndarray = text.special,
        ) -> Row:
            """One step, with LOO's values at some places."""
            scores = scores.copy()
            scores[list(places)] = exact[list(places)]
            kept = {tokens: counted(special, tokens) for tokens in TOKEN_CHOICES}
            return {
                "scores": scores,
                "forwards": forwards,
                "backwards": backwards,
                "exact": sorted(map(int, places)),
                "r": {name: agreement(scores, exact, special, Protocol(tokens=name)) for name in kept},
                "error": {name: float(relative_error(scores[at], exact[at])) for name, at in kept.items()},
            }

        grouped = [
            step(integrate(np.stack([known[k, row.tobytes()] for row in rows]), *how), len(rows), len(rows))
            for rows, *how in plans[k]
        ]
        gradient = grouped[0]["scores"]
        largest = np.argsort(-np.abs(gradient), kind="stable")
        drawn = np.random.default_rng([seed, *text.input_ids]).permutation(count)
        means = [np.full(count, exact[np.sort(drawn[:p])].mean()) for p in range(1, count + 1)]
        steps = {
            "hybrid": [step(gradient, 1 + p, 1, largest[:p]) for p in range(count + 1)],
            "groups": [grouped[0], *grouped],
            "random": [step(np.zeros(count), 0, 0)]
            + [step(mean, 1 + p, 0, drawn[:p]) for p, mean in enumerate(means, start=1)],
        }
        label = clf.labels[record.target]
        row: Row = {"tokens": record.pieces, "special": text.special, "label": label, "loo": exact}
        out.append({**row, "forwards": count + 1, "ways": steps})
    return out


# -- one word, two words ---------------------------------------------------------------------------------


def mask_paths(
    clf: Classifier, text: str, *, places: Sequence[int], points: int = 21, target: int | None = None
) -> Row:
    """The explained logit and its slope as one token's mask w_i goes from 0 to 1, the others kept at 1.

    LOO_i is the rise of the logit over the whole path, and the gradient of the mask is its slope at the end,
    w_i = 1.

    Parameters
    ----------
    places : tokens, from 0 ([CLS] in BERT).
    points : how many values of w_i, 2 or more, in equal steps.

    Returns
    -------
    dict
        `w` (points,); `tokens`, the names of the places; `label`; `value` and `slope`, each (places, points);
        `loo` and `gradient`, each (places,).
    """
    (encoded,) = clf.encode([text])
    count = len(encoded)
    if not places or any(place not in range(count) for place in places):
        expected, hint = f"places from 0 to {count - 1}", "count from 0, special tokens included"
        raise InputError("mask_paths", got=f"places {list(places)}", expected=expected, hint=hint)
    whole("mask_paths", "points", points, least=2, hint="21 gives steps of 0.05")
    w = np.linspace(0, 1, points)
    rows = np.ones((len(places), points, count))
    for k, place in enumerate(places):
        rows[k, :, place] = w
    ((_, explained, *_),) = gradients_at(clf, [encoded], [(0, np.ones(count))], [target], progress=False)
    jobs = [(0, row) for row in rows.reshape(-1, count)]
    along = gradients_at(clf, [encoded], jobs, [explained], progress=False)
    value = np.array([step[3] for step in along]).reshape(len(places), points)
    slope = np.array([step[0][places[k // points]] for k, step in enumerate(along)]).reshape(value.shape)
    return {
        "w": w,
        "tokens": [_told_apart(encoded.tokens, place) for place in places],
        "label": clf.labels[explained],
        "value": value,
        "slope": slope,
        "loo": value[:, -1] - value[:, 0],
        "gradient": slope[:, -1],
    }


def _told_apart(tokens: Sequence[str], place: int) -> str:
    """A token, with its number among equal ones where there are several."""
    alike = [k for k, token in enumerate(tokens) if token == tokens[place]]
    return tokens[place] + (f" ({alike.index(place) + 1})" if len(alike) > 1 else "")


DASHES: tuple[Any, ...] = ("-", (0, (3, 1.5)), (0, (6, 2, 1, 2)), (0, (1, 1)))


@mpl.rc_context(canvas.LOOK)
def mask_path_figure(paths: Mapping[str, Any], *, title: str) -> canvas.Drawing:
    """Draw the logit of `mask_paths` as single tokens are masked out, with the slope at the whole input."""
    changes = zip(paths["tokens"], paths["loo"], paths["gradient"], strict=True)
    alt = f"{title}. Logit as the mask of one token goes from 1 to 0: " + ", ".join(
        f"{token} falls by {fall:.2f}, its slope says {gradient:.2f}" for token, fall, gradient in changes
    )
    figure, (axes,) = canvas.drawing(alt + ".", height=3.6)
    for k, token in enumerate(paths["tokens"]):
        colour, dash = SPARE[k % len(SPARE)], DASHES[k % len(DASHES)]
        logits, slope = paths["value"][k], paths["gradient"][k]
        axes.plot(paths["w"], logits, color=colour, linestyle=dash, label=token)
        axes.plot([0, 1], logits[-1] + slope * np.array([-1, 0]), color=colour, linewidth=0.8, linestyle=":")
        where = len(logits) // 12  # a little to the right of the steepest place
        said = f"{token}: LOO {paths['loo'][k]:+.2f}", f"its slope at 1: {slope:+.2f}"
        curve = canvas.Name(said[0], paths["w"][where], logits[where], colour)
        canvas.label_points(axes, [curve, canvas.Name(said[1], 0.35, logits[-1] - 0.65 * slope, colour)])
    axes.set_xlabel("mask of the token (1: whole text, 0: left out)")
    axes.set_ylabel(f"logit of {paths['label']}")
    return finished(figure, title)


def pair_removals(clf: Classifier, text: str) -> Row:
    """LOO of every word and every pair of words, removed by the attention mask, for the explained logit.

    Two words back each other up if the pair is worth more than the two alone. LOO of single tokens does not
    see this.

    Returns
    -------
    dict
        `tokens`, `label`, `single` (T,), `pair` (T, T), symmetric, and `backing`,
        `pair - single_i - single_j`; NaN at special tokens, and on the diagonal of the last two.
    """
    (encoded,) = clf.encode([text])
    words = np.flatnonzero(~encoded.special).tolist()
    if len(words) < 2:
        got, hint = f"a text of {len(words)} words", "pass a sentence"
        raise InputError("pair_removals", got=got, expected="two or more", hint=hint)
    removed = [(), *((word, word) for word in words), *combinations(words, 2)]
    keeps = np.ones((len(removed), len(encoded)), dtype=bool)
    for row, gone in zip(keeps, removed, strict=True):
        row[list(gone)] = False
    logits = kept_logits(clf, [(encoded, keep) for keep in keeps], progress=False)
    chosen = int(classes_of([None], logits[:1])[0])
    pair = np.full((len(encoded), len(encoded)), np.nan)
    for (i, j), fall in zip(removed[1:], to_numpy(logits[0, chosen] - logits[1:, chosen]), strict=True):
        pair[i, j] = pair[j, i] = fall
    single = pair.diagonal().copy()
    np.fill_diagonal(pair, np.nan)
    named = {"tokens": encoded.tokens, "label": clf.labels[chosen]}
    return {**named, "single": single, "pair": pair, "backing": pair - single[:, None] - single}


def backed_pairs(clf: Classifier, texts: Sequence[str]) -> list[Row]:
    """The two words of each text that back each other up most, by `pair_removals`, with the most backing
    first.

    Returns
    -------
    list
        Rows `text` (its place in `texts`), `label`, `words`, `places`, `single` (LOO of both), `pair`,
        `backing`, and `largest`, the largest |LOO| of a single word of the text.
    """
    rows = []
    for place, text in enumerate(texts):
        pairs = pair_removals(clf, text)
        single, tokens = pairs["single"], pairs["tokens"]
        i, j = sorted(divmod(int(np.nanargmax(pairs["backing"])), len(tokens)))
        row: Row = {"text": place, "label": pairs["label"], "words": (tokens[i], tokens[j]), "places": (i, j)}
        row |= {"single": (float(single[i]), float(single[j])), "pair": float(pairs["pair"][i, j])}
        row["backing"] = float(pairs["backing"][i, j])
        rows.append({**row, "largest": float(np.nanmax(np.abs(single)))})
    return sorted(rows, key=lambda row: -row["backing"])


def largest_loo(clf: Classifier, texts: Sequence[str]) -> tuple[int, str]:
    """The word with the largest LOO in these texts: its position, from 0, and its text."""
    records = explain("loo", clf, clf.encode(list(texts)), [None] * len(texts), progress=False)
    scores = [np.where(record.special, -np.inf, record.scores) for record in records]
    best = int(np.argmax([of_text.max() for of_text in scores]))
    return int(scores[best].argmax()), texts[best]


# -- where it errs, from records -------------------------------------------------------------------------

FEATURES = {
    "length": "length",
    "confidence": "confidence",
    "concentration": "concentration of attention",
    "special": "attention on special tokens",
}
"""What is known of a text, and its heading: tokens, the predicted class, and two columns of `attention`."""


def where_it_errs(run: TextRun, attention: Mapping[str, Any], methods: Sequence[str]) -> list[Row]:
    """Rank correlations (Spearman) of r and error with features: on which texts is a method far from LOO?

    Parameters
    ----------
    attention : a record of `results/concentration`, of the same model and data.

    Returns
    -------
    list
        Rows `method`, `feature` (of `FEATURES`), `of` ("r" or "error", at the words), `effect` (interval),
        `p` from 10,000 permutations and `p, Holm`, corrected over all rows.
    """
    known = features(run) | _attention_of(run, attention)
    rows: list[Row] = []
    for method in methods:
        for of, column in {"r": run.r(method), "error": run.error(method)}.items():
            keep = ~np.isnan(column)
            for feature in FEATURES:
                x, y = known[feature][keep], column[keep]
                if keep.sum() > 1 and np.ptp(x) and np.ptp(y):
                    ((effect, p),) = rank_correlations(x, y[:, None])
                    rows.append({"method": method, "feature": feature, "of": of, "effect": effect, "p": p})
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p, Holm"] = corrected
    return rows


def _attention_of(run: TextRun, attention: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Columns of a record for the examples of a run; refuses attention of another model or other data."""
    keys = {"weights": "weights", "data": "fingerprint"}
    config = run.manifest["config"]
    differs = [name for name, key in keys.items() if config[name] != attention["config"][key]]
    place = {job: k for k, job in enumerate(attention["rows"]["example"])}
    if differs or not set(run.examples.tolist()) <= set(place):
        got = f"attention of other {' and '.join(differs)}"
        raise InputError(
            "where_it_errs",
            got=got if differs else "attention without some examples of the run",
            expected="the run's model and data",
            hint="take that record of results/concentration, or make it as results/README.md says",
        )
    places = [place[job] for job in run.examples.tolist()]
    return {name: np.array(attention["rows"][name])[places] for name in ("concentration", "special")}


def errs_table(rows: Sequence[Row], *, title: str) -> Table:
    """Rows of `where_it_errs`: an effect by method, measure and feature; * where p, Holm is below 0.05."""
    lines: dict[tuple[str, str], Row] = {}
    for row in rows:
        head = {"method": method_label(row["method"]), "of": row["of"]} | dict.fromkeys(
            (FEATURES[feature] for feature in dict.fromkeys(row["feature"] for row in rows)), "undefined"
        )
        line = lines.setdefault((row["method"], row["of"]), head)
        line[FEATURES[row["feature"]]] = row["effect"].text(2) + " *" * (row["p, Holm"] < 0.05)
    return table(list(lines.values()), caption=title)


STAGES = {"M": "mask gradient", "S1": "every softmax exact", "S3": "one layer at a time, exact"}
"""Steps from the mask gradient to LOO that the records of `results/mask-gradient-error` hold."""


def stages_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """How far each step from the mask gradient to LOO is from LOO, and its r."""
    rows = [
        {"data": _data(record), "step": name}
        | {"distance from LOO": bootstrap_mean(_column(record, "error", stage))}
        | {"r with LOO": bootstrap_mean(_column(record, "r", stage))}
        for record in records
        for stage, name in STAGES.items()
    ]
    caption = "From the mask gradient to LOO, words only. Distance: sum |S − LOO| / sum |LOO|"
    return table(rows, caption=caption)


def error_shares_table(records: Sequence[Mapping[str, Any]], *, digits: int = 2) -> Table:
    """What share of the mask gradient's error each step takes away: mean over texts; shares add up to 1."""
    rows = []
    for record in records:
        shares = {part: _column(record, "share", part) for part in record["rows"][0]["share"]}
        known = {part: values for part, values in shares.items() if not np.isnan(values).all()}
        if missing := [part for part in shares if part not in known]:
            name = " and ".join(missing) + ", together" * (len(missing) > 1)
            rest = 1 - np.nansum(list(known.values()), axis=0)
            known[name] = np.where(np.isnan(list(known.values())).all(0), np.nan, rest)
        for part, values in known.items():
            row = {"data": _data(record), "part of the error": part, "mean share": bootstrap_mean(values)}
            rows.append({**row, "median share": float(np.nanmedian(values))})
    caption = (
        "Where LOO − mask gradient comes from: projection of each step on the whole error. "
        "Mean shares add up to 1"
    )
    return table(rows, caption=caption, digits=digits)


def error_share(records: Sequence[Mapping[str, Any]], task: str, part: str) -> Interval:
    """The share of the error on one data set that a step takes away, mean over texts."""
    (record,) = (record for record in records if record["config"]["data"].startswith(task))
    return bootstrap_mean(_column(record, "share", part))


def _data(record: Mapping[str, Any]) -> str:
    return f"{record['config']['data'].split(' ')[0]}, n = {len(record['rows'])}"


def _column(record: Mapping[str, Any], which: str, name: str) -> np.ndarray:
    """One number of each text, NaN where it is undefined or was not measured."""
    return np.array([row[which][name] for row in record["rows"]], dtype=np.float64)


def zero_node_table(record: Mapping[str, Any]) -> Table:
    """The slope of the mask at w = 0 against LOO, by the largest attention that a word receives."""
    slopes = {name: np.array(values) for name, values in record["slopes"].items()}
    size, off = np.abs(slopes["loo"]), np.abs(slopes["slope"] - slopes["loo"])
    edges = (0.0, 0.9, 0.99, 0.999, 0.9999, 1.000001)
    rows = []
    for low, high in zip(edges, edges[1:], strict=False):
        keep = (slopes["attention"] >= low) & (slopes["attention"] < high)
        if keep.any():
            row = {"largest attention received": f"{low:g} to {min(high, 1):g}", "words": int(keep.sum())}
            row |= {"|LOO|": np.median(size[keep]), "|slope at 0 − LOO|": np.median(off[keep])}
            rows.append({**row, "their ratio": np.median(off[keep] / np.maximum(size[keep], 1e-9))})
    return table(rows, caption=f"The node at w = 0, medians over words, {record['config']['data']}")

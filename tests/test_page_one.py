"""Chapter 5, page one and its small print: each number computed again from rows and files by slow means."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lrp_book.front import EXAMPLES, PICKED, embedded, explained, number, outlier_scene, picture
from lrp_book.sphinx.findings import findings
from scipy.stats import rankdata

from lrp_companion.lab.load import load_run
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import over_trainings

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
SMALL = (ROOT / "book" / "small_print.md").read_text(encoding="utf-8")
ASKED = set(re.findall(r"\{finding\}`([^`]+)`", SMALL))


@cache
def run(name: str) -> Any:
    return load_run(RESULTS / name)


def test_the_numbers_of_the_small_print_are_those_of_the_records() -> None:
    known, readings = findings(), {"positions": slice(None), "no [CLS]": slice(1, None)}
    assert set(known) >= ASKED and len(ASKED) > 30
    maps = run("maps/sst2-companion")
    base = [dict(np.load(RESULTS / f"base/sst2-seed-{seed}-maps.npz")) for seed in range(3)]
    pair = [maps.maps(method, site="word+position") for method in ("cp-lrp", "attnlrp")]
    loo = maps.loo()
    for (reading, seen), form, (name, f) in itertools.product(
        readings.items(), ("", "divided, "), {"pearson": np.asarray, "spearman": rankdata}.items()
    ):

        def r(one: Any, judge: Any, seen: slice = seen, form: str = form, f: Any = f) -> float:
            a, b = (np.asarray(row[seen], float) for row in (one, judge))
            a, b = (a / a.sum(), b / b.sum()) if form else (a, b)
            a, b = (f(row) - f(row).mean() for row in (a, b))
            return float(a @ b / np.sqrt((a @ a) * (b @ b)))

        gaps = [r(c, judge) - r(a, judge) for c, a, judge in zip(*pair, loo, strict=True)]
        said = known[f"sst2-12, {form}{reading}, {name}"]
        assert said == front_number(gaps, bootstrap_mean(gaps))
        if form and reading == "positions":
            assert said == known[f"sst2-12, sums, word+position, all, {name}"]
        means = []
        for kept in base:
            starts = [0, *np.cumsum(kept["tokens"])]
            cut = [
                [kept[key][i:j] for i, j in itertools.pairwise(starts)]
                for key in ("cp-lrp+position", "attnlrp+position", "loo attention-mask")
            ]
            means.append([r(c, judge) - r(a, judge) for c, a, judge in zip(*cut, strict=True)])
        interval = over_trainings(dict(enumerate(means)))
        said = known[f"base, {form}{reading}, {name}"]
        assert said == front_number(np.ravel(means), interval)


def front_number(values: Sequence[float], interval: Interval) -> str:
    return number(float(np.mean(values))) + "°" * (interval.low <= 0 <= interval.high)


def test_what_is_said_of_the_picked_review_and_of_two_words() -> None:
    attnlrp, cp, loo = explained()
    words = {False: slice(None), True: slice(1, -1)}

    def lead(k: int, only: bool) -> float:
        judge = loo[k].scores[words[only]]
        x, y = (np.corrcoef(one[k].scores[words[only]], judge)[0, 1] for one in (attnlrp, cp))
        return y - x

    like = [lead(k, False) >= 0.05 and abs(lead(k, True)) < 0.05 for k in range(len(loo))]
    here = embedded().index(PICKED)
    assert like[here] and findings()["reviews, like the picked one"] == str(sum(like))
    mark, strongest = loo[here].scores[0], loo[here].scores.max()
    assert abs(mark) < 0.15 * strongest, "hide [CLS], and little changes"
    for record in (attnlrp[here], cp[here]):  # "each version colours them"
        assert (abs(record.scores[[0, -1]]) > 0.25 * record.scores.max()).all()
    of_words = [rankdata(of[here].scores[1:-1]) for of in (attnlrp, cp, loo)]
    by_rank = [np.corrcoef(of, of_words[2])[0, 1] for of in of_words[:2]]
    assert by_rank[1] - by_rank[0] > 0.05, "by rank CP-LRP is ahead"
    for text, word in zip(EXAMPLES[1:3], ("dull", "not"), strict=True):
        k = embedded().index(text)
        i = loo[k].tokens.index(word)
        if word == "dull":
            mine = attnlrp[k].scores_at("word")[i]
            assert abs(mine) < 0.05 * loo[k].scores[i] < 0.5 * cp[k].scores_at("word")[i]
            assert [loo[k].tokens[j] for j in np.argsort(-loo[k].scores)[:2]] == ["not", "dull"]
        else:
            assert cp[k].scores_at("word")[i] < 0 < loo[k].scores[i]


def test_the_picture_of_the_readme_is_page_ones(tmp_path: Path) -> None:
    path, scene = tmp_path / "picture.svg", outlier_scene()
    picture(str(path))
    shown = (ROOT / "book" / "page_one.svg").read_text(encoding="utf-8")
    texts = [re.findall(r"<text[^>]*>([^<]*)", text) for text in (path.read_text(encoding="utf-8"), shown)]
    assert texts[0] == texts[1]
    titles = [text for text in texts[1] if "r = " in text]
    r = [value for words in (False, True) for value in scene.r(without=words, ranked=False)]
    assert [float(title.split()[3]) for title in titles] == pytest.approx(r, abs=0.005)
    assert [title.split()[4:] for title in titles] == [[], ["ahead"], ["level"], ["level"]]
    assert all(f"r with LOO {value:.2f}" in scene.fallback() for value in r[:2]), "as with a script"

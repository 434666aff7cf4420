"""Numbers on the front page and what an r is worth: computed again from rows and files by slow means."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from browsing import complaints_of_axe
from lrp_book.committed import SHORT_RECIPE, TEXT_RUNS
from lrp_book.front import EXAMPLES, ONE_TOKEN, embedded, explained, outlier_scene
from lrp_book.say import number
from lrp_book.sphinx.findings import answer
from lrp_book.worth import WHAT, worth, worth_over_trainings
from plain_rows import counted, plain_loo, r_of
from scipy.stats import rankdata

from lrp_companion.checks import InputError
from lrp_companion.lab.labelled import mean
from lrp_companion.lab.load import load_run
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import over_trainings
from lrp_companion.schema import Protocol

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
CHAPTER = ROOT / "notebooks" / "05_reproduction.ipynb"
INDEX = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
ASKED = set(re.findall(r"\{finding\}`([^`]+)`", INDEX))
NUMBER = re.compile(r"(?<![\w.])[\u2212-]?\d+\.\d+")
RULES = ("CP-LRP", "AttnLRP")
WORDS, POSITIONS = Protocol(), Protocol(site="word+position", tokens="all")
FIVE = [f"trainings/sst2-{SHORT_RECIPE}-seed-{seed}" for seed in range(5)]


@cache
def run(name: str) -> Any:
    return load_run(RESULTS / name)


@cache
def rows(name: str, table: str) -> list[dict[str, Any]]:
    return sorted(pq.read_table(RESULTS / name / f"{table}.parquet").to_pylist(), key=lambda row: row["job"])


@cache
def loo_of(name: str, removal: int = 0) -> list[list[float]]:
    """LOO of each example, from the logits of a run."""
    removals = len(json.loads((RESULTS / name / "manifest.json").read_text())["axes"]["removal"])
    return [plain_loo(row, removals, removal) for row in rows(name, "examples")]


# -- the front page ----------------------------------------------------------------------------------------


def test_the_front_pages_own_numbers_are_those_of_the_records() -> None:
    known, readings = answer(), {"positions": slice(None), "no [CLS]": slice(1, None)}
    assert {name for name in ASKED if name.startswith("front, ")} <= set(known)
    maps = run("maps/sst2-companion")
    base = [dict(np.load(RESULTS / f"base/sst2-seed-{seed}-maps.npz")) for seed in range(3)]
    for (reading, seen), form, (name, f) in itertools.product(
        readings.items(), ("", "divided, "), {"pearson": np.asarray, "spearman": rankdata}.items()
    ):

        def r(one: Any, judge: Any, seen: slice = seen, form: str = form, f: Any = f) -> float:
            a, b = (np.asarray(row[seen], float) for row in (one, judge))
            a, b = (a / a.sum(), b / b.sum()) if form else (a, b)
            return np.corrcoef(f(a), f(b))[0, 1]

        pair = [maps.maps(method, site="word+position") for method in ("cp-lrp", "attnlrp")]
        gaps = [r(c, judge) - r(a, judge) for c, a, judge in zip(*pair, maps.loo(), strict=True)]
        said = known[f"front, sst2-12, {form}{reading}, {name}"]
        assert said == front_number(gaps, bootstrap_mean(gaps))
        means = []
        for kept in base:
            starts = [0, *np.cumsum(kept["tokens"])]
            cut = [
                [kept[key][i:j] for i, j in itertools.pairwise(starts)]
                for key in ("cp-lrp+position", "attnlrp+position", "loo attention-mask")
            ]
            means.append([r(c, judge) - r(a, judge) for c, a, judge in zip(*cut, strict=True)])
        interval = over_trainings(dict(enumerate(means)))
        said = known[f"front, base, {form}{reading}, {name}"]
        assert said == front_number(np.ravel(means), interval)


def front_number(values: Sequence[float], interval: Interval) -> str:
    return number(float(np.mean(values))) + "°" * (interval.low <= 0 <= interval.high)


def test_no_number_of_the_front_page_was_typed_in() -> None:
    assert len(ASKED) > 10 and not NUMBER.findall(re.sub(r"\{finding\}`[^`]+`", "", INDEX))
    seen = re.sub(r"^(```|:).*$|\|( *-+:? *\|)*", "", re.sub(r"\{finding\}`[^`]+`", "0", INDEX), flags=re.M)
    assert len(seen.split()) <= 350  # what a reader sees: no fences, options or rules of a table


def test_times_agree_wherever_they_stand() -> None:
    lines = (ROOT / "book" / "contents.md").read_text(encoding="utf-8").splitlines()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        (minutes,) = re.findall(r"\*\*Time:\*\* about (\d+) minutes", path.read_text(encoding="utf-8"))
        (row,) = [line for line in lines if line.startswith(f"| [](../notebooks/{path.name})")]
        assert row.split("|")[-2].strip() == minutes, path.name


def test_the_front_page_tells_and_can_be_touched(html: Path, visit: Any) -> None:
    page = visit((html / "book" / "index.html").as_uri(), viewport={"width": 1366, "height": 660})
    page.wait_for_selector("[data-ready]")
    scene = page.locator('[data-companion-widget="outlier_scene"]')
    box = scene.locator(".lrp-controls").bounding_box()
    assert box["y"] + box["height"] < 660, "the first control is on the first screen"
    before = scene.locator(".lrp-scene-0").get_attribute("data-r")
    scene.get_by_role("button", name="Without [CLS]").click()
    assert float(scene.locator(".lrp-scene-0").get_attribute("data-r")) > float(before) + 0.08
    first = page.locator('[data-companion-widget="layer_toggles"]')
    first.scroll_into_view_if_needed()
    first.get_by_role("button", name="CP-LRP", exact=True).click()
    for sentence, ahead in enumerate(("CP-LRP", "AttnLRP")):  # one for each rule
        first.get_by_label("Sentence").select_option(index=sentence)
        titles = first.locator(".lrp-row-title").all()
        r = {title.inner_text().split(" r with")[0]: title.get_attribute("data-r") for title in titles}
        lead = float(r["CP-LRP"]) - float(r["AttnLRP"])
        assert (lead > 0) == (ahead == "CP-LRP") and abs(lead) > 0.3
        assert r["LRP with the layers as switched"] == r["CP-LRP"]
    assert "{finding}" not in page.locator("article").inner_text()
    assert not complaints_of_axe(page, ".bd-article")


def test_what_the_front_page_says_of_two_words_and_of_reviews_like_the_scene() -> None:
    attnlrp, cp, loo = explained()

    def lead(k: int, first: int, rank: Any) -> float:
        x, y, judge = (rank(one[k].scores[first:]) for one in (attnlrp, cp, loo))
        return round(np.corrcoef(y, judge)[0, 1], 2) - round(np.corrcoef(x, judge)[0, 1], 2)

    leads = [[lead(k, i, rank) for rank in (np.asarray, rankdata) for i in (0, 1)] for k in range(len(loo))]
    like = [a > 0.005 and max(b, c, d) < -0.005 for a, b, c, d in leads]  # as in the scene's table
    note = outlier_scene(run("maps/sst2-companion")).data["note"]
    assert like[embedded().index(ONE_TOKEN)] and f"{sum(like)} of the {len(like)} reviews" in note
    for text, word in zip(EXAMPLES, ("dull", "not"), strict=False):
        k = embedded().index(text)
        i = loo[k].tokens.index(word)
        if word == "dull":
            mine = attnlrp[k].scores_at("word")[i]
            assert abs(mine) < 0.05 * loo[k].scores[i] < 0.5 * cp[k].scores_at("word")[i]
        else:
            assert cp[k].scores_at("word")[i] < 0 < loo[k].scores[i]


# -- what an r is worth ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", ["no-special", "all"])
@pytest.mark.parametrize("method", ["attnlrp", "mask-gradient"])
def test_what_r_is_worth_over_trainings(method: str, tokens: str) -> None:
    made = mean(worth_over_trainings([run(name) for name in FIVE], [method], tokens=tokens))
    plain: dict[str, list[np.ndarray]] = {what: [] for what in WHAT}
    for name in FIVE:
        maps = [row["map"] for row in rows(name, "methods") if row["method"] == method]
        table = []
        for k, (example, loo) in enumerate(zip(rows(name, "examples"), loo_of(name), strict=True)):
            kept = counted(example, tokens)
            mine, pairs = r_of(maps[k], loo, kept), []
            for other in FIVE:
                if other != name and rows(other, "examples")[k]["target"] == example["target"]:
                    theirs = loo_of(other)[k]
                    ac, bc = r_of(maps[k], theirs, kept), r_of(loo, theirs, kept)
                    spare = (1 - ac**2) * (1 - bc**2)
                    partial = (mine - ac * bc) / math.sqrt(spare) if spare > 1e-12 else math.nan
                    pairs.append((ac, partial, bc))
            known = [[x for x in column if not math.isnan(x)] for column in zip(*pairs, strict=True)]
            ac, partial, bc = (np.mean(x) if x else math.nan for x in known or [[]] * 3)
            table.append((mine, ac, mine - ac, partial, bc, mine - bc))
        for what, column in zip(WHAT, np.array(table).T, strict=True):
            plain[what].append(column)
    for what, columns in plain.items():
        value = made.sel(explainer=method, what=what).item()
        assert value.mean == pytest.approx(np.mean([np.nanmean(x) for x in columns]), abs=3e-5), what
        assert value.low < value.mean < value.high
        assert value.n == np.isfinite(columns).all(0).sum() == 872 - value.undefined


def test_what_cannot_be_weighed_is_refused() -> None:
    one, other_data = run(FIVE[0]), run(TEXT_RUNS["imdb-6"])
    for call, says in (
        (lambda: worth_over_trainings([one]), "1 runs; expected two or more"),
        (lambda: worth_over_trainings([one, other_data]), "the same examples"),
        (lambda: worth(one, []), "no other run"),
        (lambda: worth(one, [other_data]), "one fingerprint"),
        (lambda: worth(run(TEXT_RUNS["sst2-6"]), [one], ["attnlrp"]), "keeps no maps"),
    ):
        with pytest.raises(InputError, match=says) as refused:
            call()
        assert "\n" not in str(refused.value)

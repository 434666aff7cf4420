"""Chapter 5, page one and its small print: each number computed again from rows and files by slow means."""

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
from lrp_book.ch05_worth import (
    PATHS,
    depth_paths,
    dots,
    ends_of,
    from_scratch,
    judged_claims,
    lead,
    scale,
    table1_short,
    verdicts,
)
from lrp_book.committed import SHORT, SHORT_RECIPE, TEXT_RUNS, Records, records
from lrp_book.front import EXAMPLES, PICKED, embedded, explained, outlier_scene, picture
from lrp_book.say import MissingRecord, number
from lrp_book.sphinx.findings import findings
from lrp_book.worth import REMOVALS, WHAT, worth, worth_over_trainings
from plain_rows import counted, plain_loo, r_of
from prose import prose
from scipy.stats import rankdata

from lrp_companion.checks import InputError
from lrp_companion.lab.labelled import mean
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.paper.published import paper_table
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import over_trainings
from lrp_companion.schema import PROTOCOLS, Protocol

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
CHAPTER = ROOT / "notebooks" / "05_reproduction.ipynb"
INDEX = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
SMALL = (ROOT / "book" / "small_print.md").read_text(encoding="utf-8")
ASKED = set(re.findall(r"\{finding\}`([^`]+)`", SMALL))
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


def two_loo(first: str, second: str, tokens: str = "no-special") -> list[float]:
    """r of LOO with LOO of another model, where both predict the same class."""
    pairs = zip(rows(first, "examples"), rows(second, "examples"), strict=True)
    return [
        r_of(x, y, counted(a, tokens)) if a["target"] == b["target"] else math.nan
        for (a, b), x, y in zip(pairs, loo_of(first), loo_of(second), strict=True)
    ]


# -- page one and its small print --------------------------------------------------------------------------


def test_the_numbers_of_the_small_print_are_those_of_the_records() -> None:
    known, readings = findings(), {"positions": slice(None), "no [CLS]": slice(1, None)}
    assert set(known) >= ASKED and len(ASKED) > 30
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


def test_no_number_of_the_small_print_was_typed_in_and_page_one_has_none() -> None:
    assert not NUMBER.findall(re.sub(r"\{finding\}`[^`]+`", "", SMALL))
    assert not re.search(r"\d|°|Pearson", prose(INDEX).replace("you2025", "")) and "|" not in INDEX


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
    assert attnlrp[here].scores[0] < -attnlrp[here].scores[1:-1].max(), "and AttnLRP paints it blue"
    for text, word in zip(EXAMPLES, ("dull", "not"), strict=False):
        k = embedded().index(text)
        i = loo[k].tokens.index(word)
        if word == "dull":
            mine = attnlrp[k].scores_at("word")[i]
            assert abs(mine) < 0.05 * loo[k].scores[i] < 0.5 * cp[k].scores_at("word")[i]
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


@pytest.mark.parametrize(("width", "height"), [(1366, 660), (390, 844)])
def test_the_press_and_its_effect_are_seen_without_scrolling(
    width: int, height: int, html: Path, visit: Any
) -> None:
    page = visit((html / "book" / "index.html").as_uri(), viewport={"width": width, "height": height})
    page.wait_for_selector("[data-ready]")
    panels, dots = page.locator(".lrp-scene-panel"), page.locator(".lrp-scene-panel g")
    press = page.get_by_role("button", name="Count only the words")
    inside = "all => all.every(e => (b => b.top >= 0 && b.bottom <= innerHeight)(e.getBoundingClientRect()))"
    assert page.locator(".lrp-scene, .lrp-scene-row, .lrp-controls").evaluate_all(inside)
    at = "all => all.map(e => e.style.transform)"
    before = dots.evaluate_all(at)
    assert [panels.nth(k).locator("em").inner_text() for k in (0, 1)] == ["", "ahead"]
    press.click()
    assert [panels.nth(k).locator("em").inner_text() for k in (0, 1)] == ["level", "level"]
    assert dots.evaluate_all(at) == before, "no dot moves"
    assert page.locator(".lrp-scene-out").count() == 4, "two marks become rings in each panel"
    assert not complaints_of_axe(page, ".bd-article")


def test_times_agree_wherever_they_stand() -> None:
    lines = (ROOT / "book" / "contents.md").read_text(encoding="utf-8").splitlines()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        (minutes,) = re.findall(r"\*\*Time:\*\* about (\d+) minutes", path.read_text(encoding="utf-8"))
        (row,) = [line for line in lines if line.startswith(f"| [](../notebooks/{path.name})")]
        assert row.split("|")[-2].strip() == minutes, path.name


# -- the sentences -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("short", TEXT_RUNS)
def test_leads_are_those_of_the_rows(short: str) -> None:
    for key, name in SHORT.items():
        r = [run(TEXT_RUNS[short]).r(method, PROTOCOLS[name]) for method in ("cp-lrp", "attnlrp")]
        both = np.isfinite(r[0]) & np.isfinite(r[1])
        made = lead(records(RESULTS), short, key)
        assert made.mean == pytest.approx((r[0] - r[1])[both].mean(), abs=1e-12) and made.n == both.sum()


def test_claims_without_runs(tmp_path: Path) -> None:
    with pytest.raises(MissingRecord, match="no runs"):
        verdicts(Records({}, {}, {}, [], [], str(tmp_path)))
    (tmp_path / "mnist-plain").symlink_to(RESULTS / "mnist-plain")
    judged = judged_claims(str(tmp_path))
    assert judged[-1].verdict == "not testable here" and [claim.number for claim in judged][-1] == len(judged)
    assert verdicts(records(str(tmp_path))).total() == 17, "without readings of tables, and the last is ours"


def test_table_1_names_products_and_puts_the_papers_value_beside_the_same_one() -> None:
    """Section 4.3: left is Q(KᵀV). In the package left is (QKᵀ)V."""
    (printed,) = [row for row in paper_table("table1") if row["explainer"] == "AttnLRP"]
    *_, ours = str(table1_short(load_run(RESULTS / "mnist-plain"))).splitlines()
    values = re.findall(r"-?\d\.\d\d(?=  |$)", ours)
    assert values == [f"{printed[name]:.2f}" for name in ("left_vs_right", "right_vs_loo", "left_vs_loo")]


def test_the_figure_of_table_2_tells_the_papers_values() -> None:
    values = {row["method"]: row["loo_r"] for row in paper_table("table2") if row["dataset"] == "SST"}
    told = dots(run("sst2-companion")).alt.rpartition("The paper: ")[2]
    assert re.findall(r"-?\d\.\d\d", told) == [
        f"{values[name]:.2f}" for name in ("IG", "AttentionRollout", "AttnLRP", "CP-LRP")
    ]


def test_from_scratch_by_hand(tmp_path: Path) -> None:
    made = from_scratch(str(RESULTS))["gpt2"].sel(statistic="pearson").isel(training=0)
    row = {what: mean(made.sel(what=what)) for what in ("own", "ceiling", "lead")}
    first, *others = (load_run(RESULTS / f"wirings/gpt2-seed-{seed}") for seed in range(3))
    assert row["own"] == bootstrap_mean(first.r("attnlrp", WORDS))
    each = np.array([two_loo(f"wirings/{first.name}", f"wirings/{other.name}") for other in others])
    known = each[:, ~np.isnan(each).all(0)]
    assert row["ceiling"].mean == pytest.approx(np.nanmean(known, axis=0).mean(), abs=1e-6)
    lead = first.r("attnlrp", WORDS) - np.nanmean(np.where(np.isnan(each).all(0), np.inf, each), axis=0)
    assert row["lead"].mean == pytest.approx(lead[np.isfinite(lead)].mean(), abs=1e-6)
    with pytest.raises(MissingRecord, match="no wirings"):
        from_scratch(str(tmp_path))


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


@pytest.mark.parametrize("tokens", ["no-special", "all"])
@pytest.mark.parametrize("name", TEXT_RUNS.values())
def test_loo_by_another_removal(name: str, tokens: str) -> None:
    made = {row["what"]: row for row in scale([run(name)], tokens=tokens)}
    for place, removal in enumerate(run(name).manifest["axes"]["removal"][1:], start=1):
        pairs = zip(loo_of(name), loo_of(name, place), rows(name, "examples"), strict=True)
        plain = [r_of(a, b, counted(example, tokens)) for a, b, example in pairs]
        row = made[f"LOO by {REMOVALS[removal]}"]
        assert row["kind"] == "LOO by another removal" and row["n"] == np.isfinite(plain).sum()
        assert row["r"].mean == pytest.approx(np.nanmean(plain), abs=1e-6)


def test_loo_of_another_training_and_of_another_depth() -> None:
    names = ["sst2-companion", "sst2-companion-6", *(f"trainings/sst2-companion-6-seed-{k}" for k in (1, 2))]
    made = scale([run(name) for name in (*names, "frontier/sst2-companion", TEXT_RUNS["imdb-6"])])
    folders = {run(name).model: name for name in names}
    pairs = [row for row in made if row["kind"].startswith("LOO of another")]
    kinds = [row["kind"] for row in pairs]
    assert kinds.count("LOO of another training") == kinds.count("LOO of another depth") == 3
    for row in pairs:
        first, second = folders[row["model"]], folders[row["what"].removeprefix("LOO of ")]
        assert (run(first).layers == run(second).layers) == (row["kind"] == "LOO of another training")
        plain = two_loo(first, second)
        assert row["r"].mean == pytest.approx(np.nanmean(plain), abs=1e-6)
        assert row["n"] == np.isfinite(plain).sum()
    methods = [(row["what"], row["model"]) for row in made if row["kind"] == "method"]
    assert len(set(methods)) == len(methods) and ("mask gradient, K = 8", "companion") in methods
    assert [row["r"].mean for row in made] == sorted((row["r"].mean for row in made), reverse=True)


# -- layer by layer ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs() -> list[Any]:
    return list(records(RESULTS).runs.values())


@pytest.fixture(scope="module")
def data(runs: list[Any]) -> dict[str, Any]:
    return depth_paths(runs)


def slow_masks(path: str, layers: int) -> list[set[int]]:
    """The layers that are bypassed at layer k of a path, k = 1..L."""
    every = range(1, layers + 1)
    if path == "single":
        return [{k} for k in every]
    return [{m for m in every if (m <= k if path == "front-to-back" else m >= k)} for k in every]


def test_every_number_is_that_of_the_record(runs: list[Any], data: dict[str, Any]) -> None:
    texts = {run.name: run for run in runs if isinstance(run, TextRun)}
    assert [row["key"] for row in data["runs"]] == list(texts) and len(texts) == 4
    for row in data["runs"]:
        here = texts[row["key"]]
        assert row["n"] == here.n and row["layers"] == here.layers
        for (key, name), path in itertools.product(SHORT.items(), PATHS):
            masks = slow_masks(path, here.layers)
            values = [here.r(frozenset(mask), PROTOCOLS[name]) for mask in masks]
            cells, ends = row["cells"][key][path], row["ends"][key][path]
            np.testing.assert_allclose(cells["mean"], [np.nanmean(r) for r in values], rtol=1e-6)
            first = bootstrap_mean(values[0])
            assert (cells["low"][0], cells["high"][0]) == pytest.approx((first.low, first.high), abs=2e-3)
            whole, none = (
                here.r(frozenset(mask), PROTOCOLS[name]) for mask in (range(1, here.layers + 1), ())
            )
            last, none = (values[-1], values[0]) if path == "single" else (whole, none)
            assert ends["mean"] == pytest.approx(np.nanmean(last - none), rel=1e-6)
            above, below = ends["low"] > 0, ends["high"] < 0
            assert ends["side"] == ("above" if above else "below" if below else "across")


def test_the_ends_are_what_the_chapter_says(data: dict[str, Any]) -> None:
    (row,) = [row for row in data["runs"] if row["key"] == "sst2-companion"]
    for key in ("words", "positions"):
        said, value = lead(records(RESULTS), "sst2-12", key), row["ends"][key]["back-to-front"]
        assert [value[side] for side in ("mean", "low", "high")] == pytest.approx(
            [said.mean, said.low, said.high], abs=1e-6
        )


def test_the_papers_values_are_by_layer_and_for_its_depth_only(data: dict[str, Any]) -> None:
    printed = paper_table("tableA3")
    for row in data["runs"]:
        name = "SST" if row["label"].startswith("SST") else "IMDB"
        r = {line["method"]: line["loo_r"] for line in paper_table("table2") if line["dataset"] == name}
        assert row["paper ends"]["back-to-front"] == pytest.approx(r["CP-LRP"] - r["AttnLRP"])
        if row["layers"] != 12:
            assert row["paper"] is None and row["paper ends"]["single"] is None
            continue
        for path, values in row["paper"].items():
            for mask, value in zip(slow_masks(path, 12), values, strict=True):
                (cell,) = [
                    line["loo_r"]
                    for line in printed
                    if (line["dataset"], line["path"]) == (name, path.replace("-", "_"))
                    and set(line["bypass"]) == mask
                ]
                assert value == cell


def test_ends_and_what_is_refused(runs: list[Any]) -> None:
    assert ends_of("back-to-front", 4) == (frozenset({1, 2, 3, 4}), frozenset())
    assert ends_of("single", 4) == (frozenset({4}), frozenset({1}))
    with pytest.raises(InputError, match="no run with masks"):
        depth_paths([run for run in runs if not isinstance(run, TextRun)])

"""Where the gradient of the mask errs, pairs of words, budgets, and what is shown of them: against slow plain
recomputation.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lrp_book import views
from lrp_book.analysis.cost_frontier import (
    FEATURES,
    REMEDIES,
    best_within,
    digit_frontier,
    frontier,
    remedy_statements,
    where_it_errs,
)
from lrp_book.analysis.significance import holm
from lrp_book.analysis.tuned_options import load_sheets, option_choices
from lrp_book.records import failure_cases
from lrp_book.views.cost_frontier import _dodged
from tiny_models import TEXTS

from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute, kept_logits
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.runs.execute import execute
from lrp_companion.runs.load import TextRun, load_run
from lrp_companion.runs.review_jobs import TextJobs
from lrp_companion.schema import TOKEN_CHOICES, Protocol
from lrp_companion.sources.dataset import Dataset

ROOT = Path(__file__).resolve().parent.parent
LONG = (
    *TEXTS[:2],
    *TEXTS[3:],
    "a dull plot and a slow actor",
    "no laugh , never one warm scene",
    "the rare film was quick and the plot a dull one",
)
METHODS = ("loo", "attnlrp", "cp-lrp", "gradient-x-input", "mask-gradient", "mask-gradient:groups=2",
    "mask-gradient:groups=8",
           "hybrid:exact=2", "hybrid:exact=8", "sampled-loo:budget=2", "lrp:bypass=1+2")  # fmt: skip


def data(texts: tuple[str, ...] = LONG) -> Dataset:
    return Dataset(
        "sst2",
        "validation",
        "embedded",
        tuple(map(str, range(len(texts)))),
        np.arange(len(texts)) % 2,
        texts=texts,
    )


@pytest.fixture(scope="module")
def run(clf: Classifier, tmp_path_factory: pytest.TempPathFactory) -> TextRun:
    out = tmp_path_factory.mktemp("remedy") / "run"
    execute(TextJobs(clf, data(), methods=METHODS, masks="none"), out, progress=False)
    loaded = load_run(out)
    assert isinstance(loaded, TextRun)
    return loaded


@pytest.fixture(scope="module")
def rows(run: TextRun) -> list[dict[str, Any]]:
    return frontier(run)


@pytest.fixture(scope="module")
def attention(clf: Classifier) -> dict[str, Any]:
    return failure_cases.concentrations(clf, data(), progress=False)


class TestPaths:
    def test_a_path_goes_from_loo_to_the_whole_text_and_its_slope_is_a_derivative(self, clf):
        text, places = LONG[1], [2, 5]
        paths = failure_cases.mask_paths(clf, text, places=places, points=401)
        (loo,), (gradient,) = attribute(clf, text, method="loo"), attribute(clf, text, method="mask-gradient")
        np.testing.assert_allclose(paths["loo"], loo.scores[places], atol=1e-12)
        np.testing.assert_allclose(paths["gradient"], gradient.scores[places], atol=1e-12)
        np.testing.assert_allclose(paths["value"][:, -1], gradient.logit, atol=1e-12)
        between = np.diff(paths["value"], axis=1) / np.diff(paths["w"])
        np.testing.assert_allclose(
            between,
            (paths["slope"][:, 1:] + paths["slope"][:, :-1]) / 2,
            atol=1e-3 * np.abs(paths["slope"]).max(),
        )
        assert paths["tokens"] == [loo.tokens[2], loo.tokens[5]] and paths["label"] == clf.labels[loo.target]

    def test_another_class(self, clf):
        (loo,) = attribute(clf, LONG[0], method="loo", target=2)
        paths = failure_cases.mask_paths(clf, LONG[0], places=[1], points=2, target=2)
        assert paths["loo"] == pytest.approx(loo.scores[1:2]) and paths["label"] == clf.labels[2]

    @pytest.mark.parametrize(
        ("options", "words"),
        [({"places": []}, r"places \[\]; expected places from 0 to 6"), ({"places": [7]}, r"places \[7\]"),
         ({"places": [-1]}, "places"), ({"places": [1], "points": 1}, "points 1"),
         ({"places": [1], "points": True}, "points True")],
    )  # fmt: skip
    def test_refusals(self, clf, options, words):
        with pytest.raises(InputError, match=words):
            failure_cases.mask_paths(clf, LONG[0], **options)


class TestPairs:
    def test_pairs_are_removed_together(self, clf):
        text = LONG[3]
        (encoded,), (loo,) = clf.encode([text]), attribute(clf, text, method="loo")
        removals = failure_cases.pair_removals(clf, text)
        words = [i for i in range(len(encoded)) if not encoded.special[i]]
        assert (
            np.isnan(removals["single"][encoded.special]).all() and np.isnan(np.diag(removals["pair"])).all()
        )
        np.testing.assert_allclose(removals["single"][words], loo.scores[words], atol=1e-12)
        for i, j in itertools.combinations(words, 2):
            keep = np.ones(len(encoded), dtype=bool)
            keep[[i, j]] = False
            without = float(kept_logits(clf, [(encoded, keep)], progress=False)[0, loo.target])
            assert removals["pair"][i, j] == removals["pair"][j, i] == pytest.approx(loo.logit - without)
            assert removals["backing"][i, j] == pytest.approx(
                loo.logit - without - loo.scores[i] - loo.scores[j]
            )

    def test_of_each_text_the_pair_that_hides_most(self, clf):
        pairs = failure_cases.backed_pairs(clf, LONG, progress=False)
        assert sorted(row["text"] for row in pairs) == list(range(len(LONG)))
        assert [row["backing"] for row in pairs] == sorted((row["backing"] for row in pairs), reverse=True)
        for row in pairs:
            removals = failure_cases.pair_removals(clf, LONG[row["text"]])
            i, j = row["places"]
            assert i < j and row["backing"] == np.nanmax(removals["backing"]) == removals["backing"][i, j]
            assert (
                row["words"] == (removals["tokens"][i], removals["tokens"][j])
                and row["pair"] == removals["pair"][i, j]
            )
            assert row["single"] == (removals["single"][i], removals["single"][j]) and row[
                "largest"
            ] == np.nanmax(np.abs(removals["single"]))

    def test_one_word_has_no_pair(self, clf):
        with pytest.raises(InputError, match="a text of 1 words"):
            failure_cases.pair_removals(clf, "dull")

    def test_the_largest_loo_of_many_texts(self, clf):
        place, text = failure_cases.largest_loo(clf, LONG, progress=False)
        records = {text: attribute(clf, text, method="loo")[0] for text in LONG}
        best = max(
            records[candidate].scores[i]
            for candidate in LONG
            for i in range(len(records[candidate].scores))
            if not records[candidate].special[i]
        )
        assert records[text].scores[place] == pytest.approx(best) and not records[text].special[place]


class TestConcentration:
    def test_it_is_the_mean_of_squares_of_attention(self, clf, attention):
        assert attention["rows"]["example"] == data().order(None, seed=0)
        for k, place in enumerate(attention["rows"]["example"]):
            (encoded,) = clf.encode([LONG[place]])
            ids = torch.tensor([encoded.input_ids])
            squares, special = [], []
            for layer in clf.encoder.forward(ids, torch.ones_like(ids)).attentions:
                for head in layer[0].detach().numpy():
                    squares += [sum(a * a for a in row) for row in head]
                    special += [
                        sum(a for a, is_special in zip(row, encoded.special, strict=True) if is_special)
                        for row in head
                    ]
            assert attention["rows"]["concentration"][k] == pytest.approx(np.mean(squares), abs=1e-5)
            assert attention["rows"]["special"][k] == pytest.approx(np.mean(special), abs=1e-5)
            assert 1 / len(encoded) <= attention["rows"]["concentration"][k] + 1e-5
        assert attention["config"]["weights"] == clf.card.fingerprint and attention["config"]["texts"] == len(
            LONG
        )

    def test_where_it_errs_are_rank_correlations_over_texts(self, run, attention):
        stats = pytest.importorskip("scipy.stats")
        correlations = where_it_errs(run, attention)
        place = {job: k for k, job in enumerate(attention["rows"]["example"])}
        logits = run.logits()
        features = {
            "length": run.example_column("tokens"),
            "confidence": np.exp(logits).max(1) / np.exp(logits).sum(1),
            **{
                name: [attention["rows"][name][place[job]] for job in run.examples]
                for name in ("concentration", "special")
            },
        }
        assert {(row["method"], row["feature"], row["of"]) for row in correlations} == set(
            itertools.product([name for name in METHODS if name != "loo"], FEATURES, ("r", "error"))
        )
        for row in correlations:
            values = run.r(row["method"]) if row["of"] == "r" else run.error(row["method"])
            assert row["effect"].mean == pytest.approx(
                stats.spearmanr(features[row["feature"]], values).statistic
            )
        assert [row["p, Holm"] for row in correlations] == holm([row["p"] for row in correlations])
        few = where_it_errs(run, attention, methods=["mask-gradient"])
        assert {row["method"] for row in few} == {"mask-gradient"} and len(few) == 8

    def test_attention_of_something_else_is_refused(self, run, attention):
        other = {**attention, "config": {**attention["config"], "weights": "x"}}
        with pytest.raises(InputError, match="attention of other weights; expected the run's model and data"):
            where_it_errs(run, other)
        short = {**attention, "rows": {name: values[:2] for name, values in attention["rows"].items()}}
        with pytest.raises(InputError, match="attention without some examples of the run"):
            where_it_errs(run, short)


class TestBudgets:
    def test_the_best_within_each_budget(self, run, rows):
        for tokens in TOKEN_CHOICES:
            best, protocol = best_within(rows, (1, 2, 4, 8, 1000), tokens=tokens), Protocol(tokens=tokens)
            assert [row["budget"] for row in best] == [2, 4, 8, 1000]  # nothing costs one pass here
            for row in best:
                within = {
                    candidate["method"]: candidate["r"]["pearson"][tokens].mean
                    for candidate in rows
                    if candidate["cost"] <= row["budget"] and candidate["method"] != "loo"
                }
                assert within[row["method"]] == max(within.values()) == row["r"].mean
                candidate = next(candidate for candidate in rows if candidate["method"] == row["method"])
                assert (row["cost"], row["error"], row["speedup"]) == (
                    candidate["cost"],
                    candidate["error"][tokens],
                    candidate["speedup"],
                )
                assert within[row["next"]] == sorted(within.values())[-2]
                paired = bootstrap_mean(run.r(row["method"], protocol) - run.r(row["next"], protocol))
                assert row["ahead"].mean == pytest.approx(paired.mean, abs=1e-12)
                assert (row["ahead"].low, row["ahead"].high) == pytest.approx(
                    (paired.low, paired.high), abs=1e-12
                )

    def test_statements_name_the_side_of_an_interval(self, run, rows):
        statements = remedy_statements(run, rows)
        assert len(statements) == 4 * len(REMEDIES) + len(REMEDIES) + 1 and {
            row["n"] for row in statements
        } == {len(LONG)}
        for effect, says in (
            (Interval(0.2, 0.1, 0.3, 9), "one pass of the mask gradient is nearer to LOO than AttnLRP"),
            (Interval(-0.2, -0.3, -0.1, 9), "AttnLRP is nearer to LOO than one pass of the mask gradient"),
            (Interval(0.02, -0.1, 0.1, 9), "one pass of the mask gradient and AttnLRP cannot be told apart"),
        ):
            minus = {"attnlrp": {"r": {"pearson": {"no-special": effect, "all": effect}}, "delta": effect}}
            made_up = remedy_statements(run, [{"method": "mask-gradient", "minus": minus}])
            assert made_up[0]["says"] == made_up[1]["says"] == says and made_up[0]["effect"] == effect
            assert made_up[2]["says"] == says.replace("nearer to LOO", "better by perturbation") and made_up[
                2
            ]["what"].startswith("LeRF - MoRF")


class TestViews:
    @pytest.mark.parametrize(
        ("name", "label"),
        [
            ("mask-gradient", "mask gradient"),
            ("mask-gradient:groups=all:nodes=2", "mask gradient, K = T, 2 nodes of Radau"),
            ("mask-gradient:groups=4:nodes=0+0.5+1:weights=equal",
             "mask gradient, K = 4, nodes 0, 0.5 and 1, equal weights"),
            ("mask-gradient:groups=2:by=random", "mask gradient, K = 2, random groups"),
            ("lrp:bypass=3", "LRP, layer 3 bypassed"),
            ("lrp:bypass=2+3+4+8", "LRP, layers 2, 3, 4, 8 bypassed"),
            ("hybrid:exact=8:groups=8", "hybrid, 8 exact, K = 8"),
            ("hybrid:exact=4:correct=line", "hybrid, 4 exact, line"), ("ig", "IG"),
            ("ig:n_steps=8", "IG, 8 steps"), ("sampled-loo:budget=4", "random removals, 4"),
            ("attnlrp", "AttnLRP"), ("rollout:residual=true", "rollout, residual true"),
        ],
    )  # fmt: skip
    def test_a_method_in_words(self, name, label):
        assert views.method_label(name) == label

    def test_the_figure_says_in_words_what_it_draws(self, rows):
        figure = views.frontier_figure(rows, title="a run")
        top, beneath = figure.axes
        for row in rows:
            if row["method"] != "loo":
                for tokens, axes in zip(TOKEN_CHOICES, (top, beneath), strict=True):
                    r = row["r"]["pearson"][tokens].mean
                    assert (
                        f"{views.method_label(row['method'])} ({row['cost']:.0f} passes) {r:.2f}"
                        in figure.alt
                    )
                    drawn = np.concatenate(
                        [
                            np.column_stack(line.get_data())
                            for line in axes.lines
                            if line.get_marker() not in ("", "None")
                        ]
                    )
                    near = drawn[np.abs(drawn[:, 1] - r) < 1e-9]
                    assert (np.abs(np.log(near[:, 0] / row["cost"])) < 0.25).any(), row["method"]
        lines = {line.get_label(): len(line.get_xdata()) for line in top.lines}
        assert (
            lines["mask gradient, more passes"] == 3
            and lines["hybrid, more passes"] == 2
            and lines["AttnLRP"] == 1
        )
        for axes in (top, beneath):  # LOO itself is in both, at its cost
            (ring,) = [line for line in axes.lines if line.get_label() == "LOO itself"]
            assert ring.get_xydata()[0, 1] == 1 and "LOO itself" in {text.get_text() for text in axes.texts}
        assert not figure.legends
        places = _dodged([2.0, 2.0, 2.0, 9.0], list("abcd"))
        assert places["a"] < places["b"] == 2.0 < places["c"] and places["d"] == 9.0
        with pytest.raises(InputError, match="no method besides LOO"):
            views.frontier_figure([row for row in rows if row["method"] == "loo"], title="")

    def test_tables_show_the_rows(self, run, rows, attention):
        shown = repr(views.frontier_table(rows, title="t"))
        grouped = next(row for row in rows if row["method"] == "mask-gradient:groups=2")
        line = next(line for line in shown.splitlines() if line.startswith("mask gradient, K = 2"))
        for value in (grouped["r"]["pearson"]["no-special"], grouped["r"]["pearson"]["all"]):
            assert value.text(2) in line
        assert "3 + 3" in line and [line.split()[-1] for line in shown.splitlines()[2:]].count("no") < len(
            rows
        )
        near = next(
            line
            for line in repr(views.nearness_table(rows, title="t")).splitlines()
            if line.startswith("mask gradient, K = 2")
        )
        for value in (
            grouped["overlap"]["no-special"][3],
            grouped["error"]["all"],
            grouped["error"]["no-special"],
            grouped["r"]["spearman"]["all"],
        ):
            assert value.text(2) in near
        difference = repr(views.difference_table(rows, title="t"))
        assert (
            grouped["minus"]["attnlrp"]["r"]["pearson"]["all"].text(2) in difference
            and "LOO " not in difference
        )
        curves = repr(views.perturbation_table(rows, title="t")).splitlines()
        order = [row["method"] for row in sorted(rows, key=lambda row: -row["delta"].mean)]
        assert [
            line.startswith(views.method_label(name)) for line, name in zip(curves[2:], order, strict=True)
        ] == [True] * len(rows)
        assert best_within(rows)[0]["r"].text(2) in repr(
            views.budget_table({"a": best_within(rows)}, title="t")
        )
        errs = where_it_errs(run, attention, methods=["mask-gradient"])
        starred = [{**row, "p, Holm": 0.01 if row["feature"] == "length" else 0.5} for row in errs]
        text = repr(views.errs_table(starred, title="t"))
        assert text.count("*") == 2 and errs[0]["effect"].text(2) + " *" in text

    def test_choices_pairs_and_paths(self, clf):
        asked = option_choices(load_sheets(ROOT / "results" / "remedy-options"))
        shown = repr(views.option_table(asked[:3], title="t"))
        assert "companion-6: words" in shown and asked[0].differences["companion", "all"].text(3) in shown
        backed = failure_cases.backed_pairs(clf, LONG[:2], progress=False)
        assert f"{backed[0]['backing']:.2f}" in repr(views.backing_table(backed, title="t"))
        paths = failure_cases.mask_paths(clf, LONG[0], places=[2, 3], points=5)
        figure = views.mask_path_figure(paths, title="two words")
        assert (
            f"{paths['tokens'][0]} falls by {paths['loo'][0]:.2f}, its slope says {paths['gradient'][0]:.2f}"
            in figure.alt
        )
        (curve, slope, *_) = figure.axes[0].lines
        assert np.allclose(curve.get_ydata(), paths["value"][0]) and slope.get_ydata()[1] == pytest.approx(
            paths["value"][0, -1]
        )
        assert np.diff(slope.get_ydata())[0] == pytest.approx(paths["gradient"][0])

    def test_digits(self):
        interval = Interval(0.5, 0.4, 0.6, 3)
        rows = [
            {
                "method": name,
                "forwards": 1,
                "backwards": 1,
                "r": {"left": interval, "right": interval},
                "left-right": interval,
                "gap": interval,
            }
            for name in ("loo", "mask-gradient:groups=4")
        ]
        shown = repr(views.digit_frontier_table(rows, title="t"))
        assert "mask gradient, K = 4" in shown and "0.500 [0.400, 0.600]" in shown


FRONTIER = sorted((ROOT / "results" / "frontier").glob("*/manifest.json"))


@pytest.mark.skipif(not FRONTIER, reason="no records of the frontier here")
def test_the_committed_page_shows_what_the_committed_records_give():
    from lrp_companion.paper.protocol_grid import title
    from lrp_companion.paper.report import find_runs

    cells = json.loads((ROOT / "notebooks" / "07_remedy.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = {
        "".join(output["data"]["text/plain"])
        for cell in cells
        for output in cell.get("outputs", [])
        if "data" in output
    }
    runs = find_runs(ROOT / "results" / "frontier")
    texts = [run for run in runs if isinstance(run, TextRun)]
    frontiers = {run.name: frontier(run) for run in texts}
    fresh: list[Any] = [views.first_look_table(
        load_sheets(ROOT / "results" / "first-look")[0],
        {run.layers: frontiers[run.name] for run in texts if run.task == "sst2"},
        title="Mean r with LOO, then and now; the models are not the same",
    )]  # fmt: skip
    fresh += [
        views.frontier_figure(
            frontiers[run.name], title=f"What does agreement cost? {title(run)}, n = {run.n:,}"
        )
        for run in texts
    ]
    tables = [views.perturbation_table(frontiers[run.name], title="any") for run in texts]
    tables += [
        views.digit_frontier_table(digit_frontier(run), title="any") for run in runs if run.task == "mnist"
    ]
    assert fresh and not {repr(view) for view in fresh} - shown
    for view in tables:  # the captions are the page's own
        assert any(text.split("\n", 1)[-1] == repr(view).split("\n", 1)[-1] for text in shown), repr(view)

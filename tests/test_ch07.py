"""Chapter 7 against slow plain recomputation."""

from __future__ import annotations

import itertools
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from lrp_book.ch07_errors import FEATURES, errs_table, where_it_errs
from lrp_book.ch07_remedy import (
    QUESTIONS,
    _dodged,
    best_masks,
    best_within,
    difference_table,
    frontier,
    frontier_figure,
    frontier_table,
    nearness_table,
    option_choices,
    option_table,
    perturbation_table,
)
from lrp_book.committed import load_sheets
from lrp_book.labels import method_label
from lrp_book.records.concentration import concentrations
from lrp_book.records.tune_options import options_to_try
from lrp_book.significance import holm
from lrp_book.yardsticks import difference, load
from tiny_models import LONG_TEXTS, reviews

from lrp_companion import Classifier, InputError
from lrp_companion.checks import SourceError
from lrp_companion.lab.execute import execute
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.methods.hybrid import hybrid
from lrp_companion.methods.mask_gradient import LOW, MANY, quadrature
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.statistics import side_of_zero
from lrp_companion.schema import TOKEN_CHOICES, Protocol
from lrp_companion.show.tables import Table

RESULTS = Path(__file__).resolve().parent.parent / "results"
METHODS = (
    "loo",
    "attnlrp",
    "cp-lrp",
    "gradient-x-input",
    "mask-gradient",
    "mask-gradient:groups=2",
    "mask-gradient:groups=8",
    "hybrid:exact=2",
    "hybrid:exact=8",
    "sampled-loo:budget=2",
    "lrp:bypass=1+2",
)


@pytest.fixture(scope="module")
def run(clf: Classifier, tmp_path_factory: pytest.TempPathFactory) -> TextRun:
    out = tmp_path_factory.mktemp("remedy") / "run"
    execute(TextJobs(clf, reviews(LONG_TEXTS), methods=METHODS, masks="none"), out, progress=False)
    loaded = load_run(out)
    assert isinstance(loaded, TextRun)
    return loaded


@pytest.fixture(scope="module")
def data(run: TextRun) -> xr.Dataset:
    return frontier(run)


@pytest.fixture(scope="module")
def attention(clf: Classifier) -> dict[str, Any]:
    return concentrations(clf, reviews(LONG_TEXTS), progress=False)


def cells_of(table: Table) -> dict[str, dict[str, str]]:
    """The cells of a table by the name of the row, then by group and heading."""
    groups = [title for title, span in table.groups for _ in range(span)] or [""] * len(table.header)
    heads = [f"{group}: {head}" if group else head for group, head in zip(groups, table.header, strict=True)]
    return {row[0]: dict(zip(heads, row, strict=True)) for row in table.cells}


OTHERS = [name for name in METHODS if name != "loo"]


class TestFeatures:
    def test_where_it_errs_are_rank_correlations_over_texts(self, run, attention):
        stats = pytest.importorskip("scipy.stats")
        correlations = where_it_errs(run, attention, OTHERS)
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
            itertools.product(OTHERS, FEATURES, ("r", "error"))
        )
        for row in correlations:
            values = run.r(row["method"]) if row["of"] == "r" else run.error(row["method"])
            assert row["effect"].mean == pytest.approx(
                stats.spearmanr(features[row["feature"]], values).statistic
            )
        assert [row["p, Holm"] for row in correlations] == holm([row["p"] for row in correlations])
        few = where_it_errs(run, attention, ["mask-gradient"])
        assert {row["method"] for row in few} == {"mask-gradient"} and len(few) == 8

    def test_attention_of_something_else_is_refused(self, run, attention):
        other = {**attention, "config": {**attention["config"], "weights": "x"}}
        with pytest.raises(InputError, match="attention of other weights; expected the run's model and data"):
            where_it_errs(run, other, OTHERS)
        short = {**attention, "rows": {name: values[:2] for name, values in attention["rows"].items()}}
        with pytest.raises(InputError, match="attention without some examples of the run"):
            where_it_errs(run, short, OTHERS)

    def test_the_table_has_a_star_where_the_corrected_p_is_small(self, run, attention):
        errs = where_it_errs(run, attention, ["mask-gradient"])
        starred = [{**row, "p, Holm": 0.01 if row["feature"] == "length" else 0.5} for row in errs]
        r, error = errs_table([row for row in starred if row["feature"] != "special"], title="t").cells
        assert [cell.endswith("*") for cell in (*r, *error)] == [False, False, True, False, False] * 2
        assert r[2] == errs[0]["effect"].text(2) + " *" and r[:2] == ("mask gradient", "r")
        unknown = errs_table([*starred, {**starred[0], "method": "ig"}], title="t").cells[-1]
        assert unknown[3:] == ("undefined",) * 3


class TestFrontier:
    def test_tables_show_what_the_run_says(self, run, data):
        shown, near = cells_of(frontier_table(data, title="t")), cells_of(nearness_table(data, title="t"))
        gaps, curves = cells_of(difference_table(data, title="t")), perturbation_table(data, title="t")
        assert list(shown) == list(near) == [method_label(name) for name in data.explainer.values]
        assert set(gaps) == set(shown) - {"LOO"}
        assert "no" in {row["dominated"] for row in shown.values()} != {"no"}
        forwards, backwards = run.passes("mask-gradient:groups=2").mean(0)
        assert shown["mask gradient, K = 2"]["passes"] == f"{forwards:.0f} + {backwards:.0f}"
        for name in METHODS:
            label = method_label(name)
            for tokens, words in (("no-special", "words"), ("all", "all tokens")):
                protocol = Protocol(tokens=tokens)
                assert shown[label][f"r, {words}"] == text(run.agreement(name, protocol))
                spearman = run.agreement(name, Protocol(tokens=tokens, statistic="spearman"))
                assert near[label][f"{words}: Spearman"] == text(spearman)
                assert near[label][f"{words}: error"] == text(bootstrap_mean(run.error(name, tokens=tokens)))
                top = bootstrap_mean(run.overlap(name, k=3, tokens=tokens))
                assert near[label][f"{words}: top 3"] == text(top)
                for other in ("attnlrp", "cp-lrp") if name != "loo" else ():
                    gap = text(run.difference(name, other, protocol)) if name != other else ""
                    assert gaps[label][f"minus {method_label(other)}: {words}"] == gap
        order = sorted(METHODS, key=lambda name: -run.column(name, "delta").mean())
        assert [row[0] for row in curves.cells] == list(map(method_label, order))
        for name, row in zip(order, cells_of(curves).values(), strict=True):
            for heading, column in (("MoRF", "morf"), ("LeRF", "lerf"), ("LeRF − MoRF", "delta")):
                assert row[heading] == text(bootstrap_mean(run.column(name, column)))
            for other in ("attnlrp", "loo"):
                gap = paired_difference(run.column(name, "delta"), run.column(other, "delta"))
                wanted = text(gap) if name != other else ""
                assert row[f"difference minus {method_label(other)}'s"] == wanted

    def test_the_best_within_each_budget(self, run, data):
        for tokens in TOKEN_CHOICES:
            best, protocol = best_within(data, (1, 2, 4, 8, 1000), tokens=tokens), Protocol(tokens=tokens)
            assert [row["at most"] for row in best] == [2, 4, 8, 1000]  # nothing costs one pass here
            for row in best:
                within = {
                    name: np.nanmean(run.r(name, protocol))
                    for name in OTHERS
                    if run.passes(name).mean(0).sum() <= row["at most"]
                }
                first, second = sorted(within, key=lambda name: -within[name])[:2]
                assert (row["method"], row["next"]) == (method_label(first), method_label(second))
                assert row["r"].mean == pytest.approx(within[first])
                assert row["error of the value"].mean == pytest.approx(run.error(first, tokens=tokens).mean())
                assert row["passes"] == f"{run.passes(first).mean(0).sum():.0f}"
                paired = run.difference(first, second, protocol)
                ends = ("mean", "low", "high")
                assert [getattr(row["ahead of it by"], end) for end in ends] == pytest.approx(
                    [getattr(paired, end) for end in ends], abs=1e-12
                )
                seconds = [run.column(name, "seconds").mean() for name in ("loo", first)]
                assert row["times faster than LOO"] == pytest.approx(seconds[0] / seconds[1])

    def test_the_figure_says_in_words_what_it_draws(self, run, data):
        figure = frontier_figure(data, title="a run")
        top, beneath = figure.axes
        for name, (statistic, axes) in itertools.product(
            OTHERS, zip(("pearson", "spearman"), (top, beneath), strict=True)
        ):
            protocol = Protocol(tokens="no-special", statistic=statistic)
            cost, r = run.passes(name).mean(0).sum(), run.agreement(name, protocol).mean
            assert f"{method_label(name)} ({cost:.0f} passes) {r:.2f}" in figure.alt
            drawn = [line.get_xydata() for line in axes.lines if line.get_marker() not in ("", "None")]
            near = [x for x, y in np.concatenate(drawn) if abs(y - r) < 1e-9]
            assert np.isnan(r) or (np.abs(np.log(np.array(near) / cost)) < 0.25).any(), name
        lines = {line.get_label(): len(line.get_xdata()) for line in top.lines}
        assert [lines[f"{name}, more passes"] for name in ("mask gradient", "hybrid")] == [3, 2]
        assert lines["AttnLRP"] == 1
        for axes in (top, beneath):  # LOO itself is in both, at its cost
            (ring,) = [line for line in axes.lines if line.get_label() == "LOO itself"]
            assert ring.get_xydata().tolist() == [[run.passes("loo").mean(0).sum(), 1]]
            assert "LOO itself" in {text.get_text() for text in axes.texts}
        places = _dodged({"a": 2.0, "b": 2.0, "c": 2.0, "d": 9.0})
        assert places["a"] < places["b"] == 2.0 < places["c"] and places["d"] == 9.0
        with pytest.raises(InputError, match="no method besides LOO"):
            frontier_figure(data.sel(explainer=["loo"]), title="")

    @pytest.mark.parametrize(
        ("name", "label"),
        [
            ("mask-gradient", "mask gradient"),
            ("mask-gradient:groups=all:nodes=2", "mask gradient, K = T, 2 nodes of Radau"),
            (
                "mask-gradient:groups=4:nodes=0+0.5+1:weights=equal",
                "mask gradient, K = 4, nodes 0, 0.5 and 1, equal weights",
            ),
            ("mask-gradient:groups=2:by=random", "mask gradient, K = 2, random groups"),
            ("lrp:bypass=3", "LRP, layer 3 bypassed"),
            ("lrp:bypass=2+3+4+8", "LRP, layers 2, 3, 4, 8 bypassed"),
            ("hybrid:exact=8:groups=8", "hybrid, 8 exact, K = 8"),
            ("hybrid:exact=4:correct=line", "hybrid, 4 exact, line"),
            ("ig", "IG"),
            ("ig:n_steps=8", "IG, 8 steps"),
            ("sampled-loo:budget=4", "random removals, 4"),
            ("attnlrp", "AttnLRP"),
            ("rollout:residual=true", "rollout, residual true"),
        ],
    )
    def test_a_method_in_words(self, name, label):
        assert method_label(name) == label


def text(interval: Interval) -> str:
    """An interval as a cell of a table."""
    known = interval.undefined and interval.n
    return interval.text(2) + (f" ({interval.undefined} undefined)" if known else "")


OPTIONS = RESULTS / "remedy-options"


def test_options_to_try_answer_every_question():
    names = {option.name for option in options_to_try()}
    assert len(names) == len(options_to_try())
    for first, options in QUESTIONS.values():
        assert {first, *options} <= names


def test_a_folder_without_records(tmp_path):
    with pytest.raises(SourceError, match="without records"):
        load_sheets(tmp_path)


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [((0.1, 0.1), "better"), ((-0.1, -0.1), "worse"), ((0.1, -0.1), "open"), ((0.1, 0), "open")],
)
def test_a_choice_needs_every_model_and_both_tokens(shift, verdict):
    rng, records = np.random.default_rng(0), []
    first, (option, *_) = QUESTIONS["nodes, K = 4"]
    for model, offset in zip(("a", "b"), shift, strict=True):
        names = sorted({name for question in QUESTIONS.values() for name in (question[0], *question[1])})
        base = rng.random(30)
        values = {name: base + 0.01 * rng.normal(size=30) + offset * (name == option) for name in names}
        rows = [
            {"name": name, "r": {tokens: list(value) for tokens in TOKEN_CHOICES}}
            for name, value in values.items()
        ]
        records.append({"config": {"model": model}, "rows": rows})
    choices = {(choice["question"], choice["option"]): choice for choice in option_choices(records)}
    chosen = choices["nodes, K = 4", option]
    assert chosen["against"] == first and chosen["verdict"] == verdict and len(chosen["differences"]) == 4
    rows = {row["name"]: row["r"]["all"] for row in records[1]["rows"]}
    wanted = paired_difference(rows[option], rows[first])
    got = chosen["differences"]["b", "all"]
    assert (got.mean, got.low, got.high) == pytest.approx((wanted.mean, wanted.low, wanted.high), abs=1e-9)
    (row,) = option_table([chosen], title="t", digits=4).cells
    assert row[:3] == (method_label(option), verdict, method_label(first)) and row[-1] == got.text(4)


class TestRecords:
    """What is committed: made on training sentences, and what the defaults of the methods rest on."""

    def test_they_answer_every_question_on_training_sentences_of_both_models(self):
        records = load_sheets(OPTIONS)
        assert {record["config"]["model"] for record in records} == {"companion", "companion-6"}
        assert len({record["config"]["fingerprint"] for record in records}) == 1
        for record in records:
            assert record["config"]["data"] == "sst2/train from folder"
            assert [row["name"] for row in record["rows"]] == [option.name for option in options_to_try()]
            assert all(
                len(row["r"][tokens]) == record["config"]["texts"]
                for row in record["rows"]
                for tokens in TOKEN_CHOICES
            )

    def test_the_defaults_are_what_they_chose(self):
        verdicts = {
            (choice["question"], choice["option"]): choice["verdict"]
            for choice in option_choices(load_sheets(OPTIONS))
        }
        for groups in (2, 4, 8, "all"):
            low = verdicts[f"nodes, K = {groups}", f"mask-gradient:groups={groups}:nodes=0.2+1"] == "better"
            assert low == (groups == "all" or groups >= MANY)
        assert quadrature(LOW)[0].tolist() == [0.2, 1]
        assert not any(
            verdict == "better"
            for (question, _), verdict in verdicts.items()
            if question.startswith(("groups", "correction"))
        )
        assert signature(hybrid).parameters["correct"].default == "none"


def test_the_best_mask_of_the_records_is_the_one_that_was_run():
    records = load_sheets(RESULTS / "best-mask")
    for row, record in zip(best_masks(records), records, strict=True):
        r = record["r"]["no-special"]
        number = sum(1 << (layer - 1) for layer in row["layers bypassed"])
        assert len(r) == 2 ** record["config"]["layers"] and r[number] == max(r) == row["best, words"]
        ends = [record["r"]["all"][place] for place in (number, 0, -1)]
        assert [row[f"{name}, all"] for name in ("best", "attnlrp", "cp-lrp")] == ends
        name = "lrp:bypass=" + "+".join(map(str, row["layers bypassed"]))
        assert name in load_run(RESULTS / "frontier" / f"sst2-{row['model']}").methods
        assert record["config"]["data"].startswith("sst2/train") and row["n"] >= 100


def test_what_the_answers_say_without_a_number_holds() -> None:
    """Sides by Shapley values; chapter 5's two statistics on IMDB."""
    sentences = load(f"{RESULTS}/shapley", "companion")["companion"]
    statistics = ("pearson", "spearman")
    for by in statistics:
        more = difference(sentences, "mask-gradient-8", "mask-gradient", by, judge="shapley")
        assert more.low < 0 < more.high, "eight groups are no closer than one"
    run = load_run(RESULTS / "imdb-companion")
    assert isinstance(run, TextRun)
    read = {by: Protocol(site="word+position", tokens="all", statistic=by) for by in statistics}
    sides = [side_of_zero(run.difference("cp-lrp", "attnlrp", read[by])) for by in statistics]
    assert sides == ["across", "below"]

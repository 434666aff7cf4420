"""Options of the mask gradient compared: each row against plain calls of the methods, choices by their paired
intervals.
"""

from __future__ import annotations

import json
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lrp_book.analysis.tuned_options import QUESTIONS, best_masks, load_sheets, option_choices, option_rows
from lrp_book.records.tune_options import LEAST, Option, compare_masks, compare_options, options_to_try
from tiny_models import TEXTS

from lrp_companion.checks import InputError, SourceError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute, method_call
from lrp_companion.methods.hybrid import corrected, hybrid
from lrp_companion.methods.mask_gradient import LOW, MANY, group_of, quadrature
from lrp_companion.metrics import bootstrap_mean, paired_difference, pearson
from lrp_companion.schema import TOKEN_CHOICES
from lrp_companion.sources.dataset import Dataset

WORDS = (
    *TEXTS,
    "a dull plot and a slow actor",
    "no laugh , never one warm scene",
    "the rare film was quick and the plot a dull one",
)
RECORDS = Path(__file__).resolve().parent.parent / "results" / "remedy-options"
ODD = (
    Option(2, (0.2, 1), weights="equal"),
    Option(3, (0, 0.5, 1), weights="equal"),
    Option(3, 2, by="random"),
    Option(3, 3, by="gradient"),
    Option(3, 2, by="gradient", exact=2, correct="line"),
)
ROOT = 6**0.5
RADAU = {  # with a node at 1, from a table
    2: ([1 / 3, 1], [3 / 4, 1 / 4]),
    3: ([(4 - ROOT) / 10, (4 + ROOT) / 10, 1], [(16 - ROOT) / 36, (16 + ROOT) / 36, 1 / 9]),
}


def sentences() -> Dataset:
    return Dataset(
        "sst2",
        "train",
        "embedded",
        tuple(map(str, range(len(WORDS)))),
        np.arange(len(WORDS)) % 2,
        texts=WORDS,
    )


def long_enough(clf: Classifier, seed: int) -> list[str]:
    return [WORDS[k] for k in sentences().order(None, seed=seed) if len(clf.encode(WORDS[k])[0]) >= LEAST]


@pytest.fixture(scope="module")
def sheet(clf: Classifier) -> dict[str, Any]:
    named = [
        Option(),
        Option(2, 2),
        Option(4, (0.2, 1)),
        Option("all", 3),
        Option(exact=2),
        Option(2, (0, 1), exact=4, correct="scale"),
    ]
    return compare_options(clf, sentences(), options=[*named, *ODD], limit=4, seed=3)


def plainly(clf: Classifier, text: str, row: dict[str, Any], seed: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Scores and passes of an option that no method has, one mask at a time."""
    (encoded,) = clf.encode(text)
    (record,) = attribute(clf, text, method="mask-gradient")
    t, k = len(encoded), row["groups"]
    ranked = {
        int(token): rank for rank, token in enumerate(np.argsort(-np.abs(record.scores), kind="stable"))
    }
    groups = {
        "place": lambda: [i % k for i in range(t)],
        "random": lambda: group_of(t, k, seed=seed).tolist(),
        "gradient": lambda: [ranked[i] % k for i in range(t)],
    }[row["by"]]()

    def gradient(keep: list[float]) -> np.ndarray:
        w = torch.tensor([keep], dtype=torch.float64, requires_grad=True)
        ids = torch.tensor([encoded.input_ids])
        logit = clf.encoder.forward(ids, torch.ones_like(ids), keep=w).logits[0, record.target]
        return torch.autograd.grad(logit, w)[0][0].numpy()

    nodes, weights = RADAU[row["nodes"]] if isinstance(row["nodes"], int) else (row["nodes"], None)
    weights = [1 / len(nodes)] * len(nodes) if row["weights"] == "equal" else weights
    scores = np.zeros(t)
    for node, weight in zip(nodes, weights, strict=True):
        for group in range(k):
            g = gradient([node if groups[i] == group else 1.0 for i in range(t)])
            scores += [weight * g[i] if groups[i] == group else 0.0 for i in range(t)]
    places = np.argsort(-np.abs(scores), kind="stable")[: row["exact"]]
    if row["exact"]:
        (loo,) = attribute(clf, text, method="loo")
        scores = corrected(scores, places, loo.scores[places], row["correct"])
    rows = 1 + min(k, t) * (len(nodes) - 1)
    return scores, (rows + row["exact"], rows)


def test_a_row_is_what_plain_calls_give(clf, sheet):
    texts = long_enough(clf, 3)[:4]
    assert len(texts) == 4 == sheet["config"]["texts"]
    for row in sheet["rows"]:
        passes, errors = [], {tokens: [] for tokens in TOKEN_CHOICES}
        for n, text in enumerate(texts):
            (loo,) = attribute(clf, text, method="loo")
            if row["weights"] == "equal" or row["by"] != "place":
                scores, cost = plainly(clf, text, row, 3)
            else:
                method, options = method_call(row["name"])
                (record,) = attribute(clf, text, method=method, **options)
                scores, cost = record.scores, record.details["passes"]
            passes.append(cost)
            for tokens in TOKEN_CHOICES:
                kept = ~loo.special if tokens == "no-special" else np.ones(len(scores), dtype=bool)
                assert row["r"][tokens][n] == pytest.approx(
                    pearson(scores[kept], loo.scores[kept]), abs=6e-5
                ), row["name"]
                errors[tokens].append(
                    np.abs(scores - loo.scores)[kept].sum() / np.abs(loo.scores[kept]).sum()
                )
        assert row["passes"] == pytest.approx(np.mean(passes, axis=0), abs=1e-3)
        assert row["error"] == pytest.approx(
            {tokens: np.mean(values) for tokens, values in errors.items()}, rel=6e-4
        ), row["name"]


def test_a_record_says_what_it_was_made_with_and_holds_no_text(clf, sheet):
    config, lengths = sheet["config"], [len(clf.encode(text)[0]) for text in long_enough(clf, 3)[:4]]
    assert (config["model"], config["weights"], config["layers"]) == (clf.card.name, clf.card.fingerprint, 3)
    assert (
        config["data"] == "sst2/train from embedded"
        and config["fingerprint"] == sentences().fingerprint
        and config["seed"] == 3
    )
    assert config["tokens"] == {
        "mean": round(float(np.mean(lengths)), 2),
        "least": min(lengths),
        "most": max(lengths),
    }
    assert min(lengths) >= LEAST
    written = json.dumps(sheet)
    assert not any(word in written for word in ("grace", "actor", "laugh", "plot"))


def test_intervals_are_those_of_the_values(sheet):
    for row, plain in zip(option_rows(sheet), sheet["rows"], strict=True):
        for tokens in TOKEN_CHOICES:
            wanted, got = bootstrap_mean(plain["r"][tokens]), row["r"][tokens]
            assert (got.mean, got.low, got.high, got.n) == pytest.approx(
                (wanted.mean, wanted.low, wanted.high, wanted.n), abs=1e-9
            )
        assert row["cost"] == sum(plain["passes"]) and row["error"] == plain["error"]


def test_options_to_try_answer_every_question():
    names = {option.name for option in options_to_try()}
    assert len(names) == len(options_to_try())
    for first, options in QUESTIONS.values():
        assert {first, *options} <= names


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
    choices = {(choice.question, choice.option): choice for choice in option_choices(records)}
    chosen = choices["nodes, K = 4", option]
    assert chosen.against == first and chosen.verdict == verdict and len(chosen.differences) == 4
    rows = {row["name"]: row["r"]["all"] for row in records[1]["rows"]}
    wanted = paired_difference(rows[option], rows[first])
    got = chosen.differences["b", "all"]
    assert (got.mean, got.low, got.high) == pytest.approx((wanted.mean, wanted.low, wanted.high), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"options": []}, "0 options"), ({"options": [Option(), Option()]}, "2 options"),
     ({"limit": 99}, "limit 99 with [4-7] texts"), ({"limit": 0}, "limit 0"), ({"limit": True}, "limit True"),
     ({"seed": -1}, "seed -1")],
)  # fmt: skip
def test_bad_input_is_refused(clf, options, words):
    with pytest.raises(InputError, match=words):
        compare_options(clf, sentences(), **{"options": [Option()], "limit": 2, **options})


@pytest.mark.parametrize("options", [{"by": "length"}, {"weights": "some"}, {"correct": "mean"}])
def test_options_that_are_none(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} "):
        Option(2, 2, **options)


def test_a_folder_without_records(tmp_path):
    with pytest.raises(SourceError, match="without records"):
        load_sheets(tmp_path)


class TestRecords:
    """What is committed: made on training sentences, and what the defaults of the methods rest on."""

    def test_they_answer_every_question_on_training_sentences_of_both_models(self):
        records = load_sheets(RECORDS)
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
            (choice.question, choice.option): choice.verdict
            for choice in option_choices(load_sheets(RECORDS))
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


class TestMasks:
    def test_each_mask_is_the_mean_of_plain_calls(self, clf):
        sheet = compare_masks(clf, sentences(), limit=4, seed=3)
        kept = long_enough(clf, 3)[:4]
        exact = attribute(clf, kept, method="loo")
        for number in range(2**clf.card.layers):
            layers = [bit + 1 for bit in range(clf.card.layers) if number >> bit & 1]
            maps = attribute(clf, kept, method="lrp", bypass=layers)
            for tokens in TOKEN_CHOICES:
                r = [
                    pearson(record.scores[places], loo.scores[places])
                    for record, loo in zip(maps, exact, strict=True)
                    for places in [~np.array(record.special) if tokens == "no-special" else slice(None)]
                ]
                assert sheet["r"][tokens][number] == pytest.approx(np.nanmean(r), abs=2e-5)
        assert sheet["config"]["texts"] == 4 and sheet["config"]["weights"] == clf.card.fingerprint

    def test_refusals(self, clf, monkeypatch):
        with pytest.raises(InputError, match="compare_masks: got limit 99"):
            compare_masks(clf, sentences(), limit=99)
        monkeypatch.setattr(clf, "card", replace(clf.card, layers=17))
        with pytest.raises(InputError, match="17 layers; expected at most 16"):
            compare_masks(clf, sentences(), limit=1)

    def test_the_best_mask_of_the_records_is_the_one_that_was_run(self):
        rows = best_masks(load_sheets(RECORDS.parent / "best-mask"))
        assert [row["model"] for row in rows] == ["companion", "companion-6"]
        for row, record in zip(rows, load_sheets(RECORDS.parent / "best-mask"), strict=True):
            r = record["r"]["no-special"]
            number = sum(1 << (layer - 1) for layer in row["layers"])
            assert (
                len(r) == 2 ** record["config"]["layers"]
                and r[number] == max(r) == row["r"]["no-special"]["best"]
            )
            assert row["r"]["all"] == {
                "best": record["r"]["all"][number],
                "attnlrp": record["r"]["all"][0],
                "cp-lrp": record["r"]["all"][-1],
            }
            assert (
                record["config"]["data"].startswith("sst2/train")
                and row["n"] == record["config"]["texts"] >= 100
            )

    def test_where_no_layer_is_best_it_is_attnlrp(self):
        (row,) = best_masks(
            [{"config": {"model": "m", "texts": 9}, "r": {"no-special": [0.3, 0.3], "all": [0.2, 0.1]}}]
        )
        assert (row["name"], row["layers"]) == ("attnlrp", [])

"""Chapter 7 against slow plain runs: passes step by step, paths and pairs of words, shares of the error."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from lrp_book import ch07_errors
from lrp_book.ch07_errors import (
    anytime_maps,
    backed_pairs,
    error_shares_table,
    largest_loo,
    mask_path_figure,
    mask_paths,
    pair_removals,
)
from lrp_book.records.mask_gradient_error import PARTS
from tiny_models import LONG_TEXTS

import lrp_companion as lrp
from lrp_companion import Classifier, InputError
from lrp_companion.methods import attribute, kept_logits
from lrp_companion.methods.mask_gradient import default_nodes


class TestPaths:
    def test_a_path_goes_from_loo_to_the_whole_text_and_its_slope_is_a_derivative(self, clf):
        text, places = LONG_TEXTS[1], [2, 5]
        paths = mask_paths(clf, text, places=places, points=401)
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
        (loo,) = attribute(clf, LONG_TEXTS[0], method="loo", target=2)
        paths = mask_paths(clf, LONG_TEXTS[0], places=[1], points=2, target=2)
        assert paths["loo"] == pytest.approx(loo.scores[1:2]) and paths["label"] == clf.labels[2]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"places": []}, r"places \[\]; expected places from 0 to 6"),
            ({"places": [7]}, r"places \[7\]"),
            ({"places": [-1]}, "places"),
            ({"places": [1], "points": 1}, "points 1"),
            ({"places": [1], "points": True}, "points True"),
        ],
    )
    def test_refusals(self, clf, options, words):
        with pytest.raises(InputError, match=words):
            mask_paths(clf, LONG_TEXTS[0], **options)


class TestFigureOfPaths:
    def test_it_draws_the_path_and_the_slope(self, clf):
        paths = mask_paths(clf, LONG_TEXTS[0], places=[2, 3], points=5)
        figure = mask_path_figure(paths, title="two words")
        fall, slope_at_1 = paths["loo"][0], paths["gradient"][0]
        assert f"{paths['tokens'][0]} falls by {fall:.2f}, its slope says {slope_at_1:.2f}" in figure.alt
        (curve, slope, *_) = figure.axes[0].lines
        assert np.allclose(curve.get_ydata(), paths["value"][0])
        assert slope.get_ydata()[1] == pytest.approx(paths["value"][0, -1])
        assert np.diff(slope.get_ydata())[0] == pytest.approx(slope_at_1)


class TestPairs:
    def test_pairs_are_removed_together(self, clf):
        text = LONG_TEXTS[3]
        (encoded,), (loo,) = clf.encode([text]), attribute(clf, text, method="loo")
        removals = pair_removals(clf, text)
        words = [i for i in range(len(encoded)) if not encoded.special[i]]
        assert np.isnan(removals["single"][encoded.special]).all()
        assert np.isnan(np.diag(removals["pair"])).all()
        np.testing.assert_allclose(removals["single"][words], loo.scores[words], atol=1e-12)
        for i, j in itertools.combinations(words, 2):
            keep = np.ones(len(encoded), dtype=bool)
            keep[[i, j]] = False
            without = float(kept_logits(clf, [(encoded, keep)])[0, loo.target])
            assert removals["pair"][i, j] == removals["pair"][j, i] == pytest.approx(loo.logit - without)
            assert removals["backing"][i, j] == pytest.approx(
                loo.logit - without - loo.scores[i] - loo.scores[j]
            )

    def test_of_each_text_the_pair_that_hides_most(self, clf):
        pairs = backed_pairs(clf, LONG_TEXTS)
        assert sorted(row["text"] for row in pairs) == list(range(len(LONG_TEXTS)))
        assert [row["backing"] for row in pairs] == sorted((row["backing"] for row in pairs), reverse=True)
        for row in pairs:
            removals = pair_removals(clf, LONG_TEXTS[row["text"]])
            i, j = row["places"]
            assert i < j and row["backing"] == np.nanmax(removals["backing"]) == removals["backing"][i, j]
            assert row["words"] == (removals["tokens"][i], removals["tokens"][j])
            assert row["pair"] == removals["pair"][i, j]
            assert row["single"] == (removals["single"][i], removals["single"][j])
            assert row["largest"] == np.nanmax(np.abs(removals["single"]))

    def test_one_word_has_no_pair(self, clf):
        with pytest.raises(InputError, match="a text of 1 words"):
            pair_removals(clf, "dull")

    def test_the_largest_loo_of_many_texts(self, clf):
        place, text = largest_loo(clf, LONG_TEXTS)
        records = {text: attribute(clf, text, method="loo")[0] for text in LONG_TEXTS}
        best = max(
            records[candidate].scores[i]
            for candidate in LONG_TEXTS
            for i in range(len(records[candidate].scores))
            if not records[candidate].special[i]
        )
        assert records[text].scores[place] == pytest.approx(best) and not records[text].special[place]


@pytest.mark.parametrize("missing", [("a head's way out", "across heads"), ("within one softmax",), ()])
def test_the_table_of_shares_adds_up_to_the_whole(missing):
    draws = np.random.default_rng(0).dirichlet(np.ones(len(PARTS)), size=5)
    shares = [dict(zip(PARTS, draw, strict=True)) for draw in draws]
    rows = [{"share": {k: None if k in missing else v for k, v in share.items()}} for share in shares]
    cells = error_shares_table([{"config": {"data": "some"}, "rows": rows}], digits=6).cells
    means = [float(row[2].split()[0]) for row in cells]
    assert sum(means) == pytest.approx(1.0, abs=5e-6)
    assert len(cells) == len(PARTS) - len(missing) + bool(missing)
    if missing:
        rest = [sum(share[part] for part in missing) for share in shares]
        assert cells[-1][1].split(", ")[0] == " and ".join(missing)
        assert means[-1] == pytest.approx(np.mean(rest), abs=2e-6)
        assert float(cells[-1][3]) == pytest.approx(np.median(rest), abs=2e-6)


# the second has more tokens than `MANY` groups
SHORT = ["a film of rare grace", "dull , slow and far too long , a dull film"]
STEPS = {
    "hybrid": ("hybrid", "exact"),
    "groups": ("mask-gradient", "groups"),
    "random": ("sampled-loo", "budget"),
}


@pytest.fixture(scope="module")
def maps(clf: Classifier) -> list[dict[str, Any]]:
    return anytime_maps(clf, SHORT, seed=3)


def check_against_the_methods(
    clf: Classifier, text: str, record: dict[str, Any], *, seed: int, target: int | None = None
) -> None:
    (loo,) = lrp.attribute(clf, text, method="loo", target=target)
    np.testing.assert_allclose(record["loo"], loo.scores, rtol=0, atol=1e-10)
    assert (record["tokens"], record["label"], record["forwards"]) == (
        loo.pieces,
        clf.labels[loo.target],
        len(loo.tokens) + 1,
    )
    assert record["special"].tolist() == loo.special.tolist() and tuple(record["ways"]) == tuple(STEPS)
    for way, steps in record["ways"].items():
        assert len(steps) == len(loo.tokens) + 1
        method, option = STEPS[way]
        for p, step in enumerate(steps):
            if p == 0 and way == "random":
                assert not step["scores"].any()
                assert (step["forwards"], step["backwards"], step["exact"]) == (0, 0, [])
                continue
            nodes = default_nodes(p) or (2 if p > 1 else 1)  # with nodes, never LOO in place of groups
            own = {"mask-gradient": {"nodes": nodes}, "hybrid": {}, "sampled-loo": {"seed": seed}}
            options = own[method] | {option: p}
            (expected,) = lrp.attribute(
                clf, text, method=method if p else "mask-gradient", target=target, **(options if p else {})
            )
            np.testing.assert_allclose(
                step["scores"], expected.scores, rtol=0, atol=1e-10, err_msg=f"{way} {p}"
            )
            assert (step["forwards"], step["backwards"]) == expected.details["passes"], (way, p)
            assert tuple(step["exact"]) == expected.details.get("exact tokens", ()), (way, p)


@pytest.mark.parametrize("place", range(len(SHORT)))
def test_every_step_is_the_method_of_that_name(clf, maps, place):
    check_against_the_methods(clf, SHORT[place], maps[place], seed=3)


def test_every_family_and_a_class_of_ones_own(family_clf: Classifier) -> None:
    (record,) = anytime_maps(family_clf, SHORT[0], target=0)
    check_against_the_methods(family_clf, SHORT[0], record, seed=0, target=0)


def test_r_and_error_are_of_the_map_at_that_step(maps: list[dict[str, Any]]) -> None:
    undefined = 0
    for record in maps:
        for steps in record["ways"].values():
            for step in steps:
                for tokens, kept in (
                    ("no-special", ~record["special"]),
                    ("all", np.ones(len(record["loo"]), dtype=bool)),
                ):
                    scores, loo = step["scores"][kept], record["loo"][kept]
                    assert step["error"][tokens] == pytest.approx(
                        sum(abs(scores - loo)) / sum(abs(loo)), rel=1e-12
                    )
                    if np.ptp(scores) == 0:
                        undefined += 1
                        assert np.isnan(step["r"][tokens])
                    else:
                        assert step["r"][tokens] == pytest.approx(np.corrcoef(scores, loo)[0, 1], abs=1e-9)
    assert undefined >= 8  # without a draw, and after the first, all tokens are alike


def test_exact_tokens_stay_exact_and_are_all_in_the_end(maps: list[dict[str, Any]]) -> None:
    for record in maps:
        places = list(range(len(record["loo"])))
        gradient = record["ways"]["hybrid"][0]["scores"]
        for way in ("hybrid", "random"):
            steps = record["ways"][way]
            assert [len(step["exact"]) for step in steps] == [0, *(p + 1 for p in places)]
            assert steps[-1]["exact"] == places
            assert all(
                set(before["exact"]) < set(after["exact"])
                for before, after in zip(steps, steps[1:], strict=False)
            )
            assert all(
                np.array_equal(step["scores"][step["exact"]], record["loo"][step["exact"]]) for step in steps
            )
        for p, step in enumerate(record["ways"]["hybrid"]):
            others = [i for i in places if i not in step["exact"]]
            assert max((abs(gradient[i]) for i in others), default=0) <= min(
                (abs(gradient[i]) for i in step["exact"]), default=np.inf
            )
            assert np.array_equal(step["scores"][others], gradient[others])
            assert (step["forwards"], step["backwards"]) == (1 + p, 1)
        assert all(step["exact"] == [] for step in record["ways"]["groups"])


def test_each_removal_and_each_mask_is_run_once(clf: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[int, bytes]] = []
    times = {"gradients_at": 0, "explain": 0}

    def watched(name: str) -> Any:
        run = getattr(ch07_errors, name)

        def call(*given: Any, **options: Any) -> Any:
            times[name] += 1
            if name == "gradients_at":
                rows.extend((k, row.tobytes()) for k, row in given[2])
            return run(*given, **options)

        return call

    for name in times:
        monkeypatch.setattr(ch07_errors, name, watched(name))
    records = anytime_maps(clf, SHORT)
    assert times == {"gradients_at": 1, "explain": 1} and len(set(rows)) == len(rows)
    asked = sum(step["backwards"] for record in records for step in record["ways"]["groups"][1:])
    assert len(rows) < 0.8 * asked


def test_the_seed_draws_and_nothing_else(clf: Classifier, maps: list[dict[str, Any]]) -> None:
    (other,) = anytime_maps(clf, SHORT[1], seed=4)
    for way in STEPS:
        same = [
            np.allclose(a["scores"], b["scores"], atol=1e-12)
            for a, b in zip(maps[1]["ways"][way], other["ways"][way], strict=True)
        ]
        assert all(same) == (way != "random")


def test_what_cannot_be_is_refused_before_any_work(clf: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("explain", "gradients_at"):
        monkeypatch.delattr(ch07_errors, name)
    for bad, message in (
        ({"seed": -1}, "seed -1"),
        ({"seed": True}, "seed True"),
        ({"target": 3}, "target 3"),
        ({"target": [0]}, "1 targets for 2 inputs"),
    ):
        with pytest.raises(InputError, match=message):
            anytime_maps(clf, SHORT, **bad)
    for texts, message in (([], "no texts"), ([" "], "only whitespace"), (["dull " * 3000], "at most")):
        with pytest.raises(InputError, match=message):
            anytime_maps(clf, texts)


def test_byte_level_tokens_are_shown_as_text(model_folder: Any) -> None:
    clf = lrp.load_classifier(model_folder("roberta"))
    (record,) = anytime_maps(clf, ["Zürich film café"], progress=False)
    assert "ü" in record["tokens"]
    assert not [token for token in record["tokens"] if "Ã" in token or "Ġ" in token]

"""Passes spent step by step: every step is what the method of that name gives on its own, and each mask is
run once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lrp_book.analysis import budget_steps
from lrp_book.analysis.budget_steps import WAYS, anytime_maps

import lrp_companion as lrp
from lrp_companion import Classifier, InputError

TEXTS = [
    "a film of rare grace",
    "dull , slow and far too long , a dull film",
]  # the second has more tokens than `MANY` groups
METHODS = {
    "hybrid": ("hybrid", "exact"),
    "groups": ("mask-gradient", "groups"),
    "random": ("sampled-loo", "budget"),
}


@pytest.fixture(scope="module")
def maps(clf: Classifier) -> list[dict[str, Any]]:
    return anytime_maps(clf, TEXTS, seed=3)


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
    assert record["special"].tolist() == loo.special.tolist() and tuple(record["ways"]) == WAYS
    for way, steps in record["ways"].items():
        assert len(steps) == len(loo.tokens) + 1
        method, option = METHODS[way]
        for p, step in enumerate(steps):
            if p == 0 and way == "random":
                assert not step["scores"].any() and (step["forwards"], step["backwards"], step["exact"]) == (
                    0,
                    0,
                    [],
                )
                continue
            options = {"mask-gradient": {}, "hybrid": {}, "sampled-loo": {"seed": seed}}[method] | {option: p}
            (expected,) = lrp.attribute(
                clf, text, method=method if p else "mask-gradient", target=target, **(options if p else {})
            )
            np.testing.assert_allclose(
                step["scores"], expected.scores, rtol=0, atol=1e-10, err_msg=f"{way} {p}"
            )
            assert (step["forwards"], step["backwards"]) == expected.details["passes"], (way, p)
            assert tuple(step["exact"]) == expected.details.get("exact tokens", ()), (way, p)


@pytest.mark.parametrize("place", range(len(TEXTS)))
def test_every_step_is_the_method_of_that_name(
    clf: Classifier, maps: list[dict[str, Any]], place: int
) -> None:
    check_against_the_methods(clf, TEXTS[place], maps[place], seed=3)


def test_every_family_and_a_class_of_ones_own(family_clf: Classifier) -> None:
    (record,) = anytime_maps(family_clf, TEXTS[0], target=0)
    check_against_the_methods(family_clf, TEXTS[0], record, seed=0, target=0)


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
            assert [len(step["exact"]) for step in steps] == [0, *(p + 1 for p in places)] and steps[-1][
                "exact"
            ] == places
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
            assert np.array_equal(step["scores"][others], gradient[others]) and (
                step["forwards"],
                step["backwards"],
            ) == (1 + p, 1)
        assert all(step["exact"] == [] for step in record["ways"]["groups"])


def test_each_removal_and_each_mask_is_run_once(clf: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[int, bytes]] = []
    times = {"gradients_at": 0, "loo": 0}

    def watched(name: str) -> Any:
        run = getattr(budget_steps, name)

        def call(*given: Any, **options: Any) -> Any:
            times[name] += 1
            if name == "gradients_at":
                rows.extend((k, row.tobytes()) for k, row in given[2])
            return run(*given, **options)

        return call

    for name in times:
        monkeypatch.setattr(budget_steps, name, watched(name))
    records = anytime_maps(clf, TEXTS)
    assert times == {"gradients_at": 1, "loo": 1} and len(set(rows)) == len(rows)
    asked = sum(step["backwards"] for record in records for step in record["ways"]["groups"][1:])
    assert len(rows) < 0.8 * asked


def test_the_seed_draws_and_nothing_else(clf: Classifier, maps: list[dict[str, Any]]) -> None:
    (other,) = anytime_maps(clf, TEXTS[1], seed=4)
    for way in WAYS:
        same = [
            np.allclose(a["scores"], b["scores"], atol=1e-12)
            for a, b in zip(maps[1]["ways"][way], other["ways"][way], strict=True)
        ]
        assert all(same) == (way != "random")


def test_what_cannot_be_is_refused_before_any_work(clf: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("loo", "gradients_at"):
        monkeypatch.delattr(budget_steps, name)
    for bad, message in (
        ({"seed": -1}, "seed -1"),
        ({"seed": True}, "seed True"),
        ({"target": 3}, "target 3"),
        ({"target": [0]}, "1 targets for 2 inputs"),
    ):
        with pytest.raises(InputError, match=message):
            anytime_maps(clf, TEXTS, **bad)
    for texts, message in (([], "no texts"), ([" "], "only whitespace"), (["dull " * 3000], "at most")):
        with pytest.raises(InputError, match=message):
            anytime_maps(clf, texts)


def test_byte_level_tokens_are_shown_as_text(model_folder: Any) -> None:
    clf = lrp.load_classifier(model_folder("roberta"))
    (record,) = anytime_maps(clf, ["Zürich film café"], progress=False)
    assert "ü" in record["tokens"] and not [
        token for token in record["tokens"] if "Ã" in token or "Ġ" in token
    ]

"""Chapter 9 and the records of pre-trained models: makers on tiny models, readings of what is committed."""

from __future__ import annotations

import copy
import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import torch
from lrp_book import ch09_real as ch
from lrp_book.ch05_worth import judged_claims
from lrp_book.committed import records
from lrp_book.predictions import FAILED, MET, MIXED
from lrp_book.records import in_chunks, real
from lrp_book.say import MissingRecord
from tiny_models import TEXTS, build, pre_norm

import lrp_companion as lrp
from lrp_companion.attribution import scores_at
from lrp_companion.metrics import pearson, spearman
from lrp_companion.metrics.faithfulness import perturbation_curve
from lrp_companion.metrics.statistics import side_of_zero

RESULTS = str(Path(__file__).parents[1] / "results")
LM = f"{RESULTS}/smollm2"

MAPS = ("attnlrp", "cp-lrp")


@pytest.fixture(scope="module")
def clf():
    return lrp.load_classifier(*build("mpnet"))


@pytest.fixture(scope="module")
def texts(clf):
    encoded = clf.encode(list(TEXTS))
    words = [~text.special for text in encoded]
    return real.Texts(encoded, [0, 1, 0, 1], words, [3, 1, 2, 0], [True] * len(encoded))


# The makers.


def test_integrated_gradients_over_several_texts_are_those_of_the_method(clf, texts):
    made = real.integrated_gradients(clf, texts, steps=5)
    for text, target, scores in zip(TEXTS, texts.targets, made, strict=True):
        (record,) = lrp.attribute(clf, text, method="ig", n_steps=5, target=target)
        assert scores == pytest.approx(record.scores, abs=1e-6)


def test_maps_and_curves_are_those_of_the_package(clf, texts):
    made = real.explained(clf, texts, removals=("attention-mask",), methods=("attnlrp",), curve_chunk=1)
    maps = np.split(made["attnlrp"], np.cumsum([len(t) for t in texts.encoded])[:-1])
    for k, text in enumerate(TEXTS):
        (record,) = lrp.attribute(clf, text, method="attnlrp", target=texts.targets[k])
        assert maps[k] == pytest.approx(record.scores, abs=1e-6)
    everything, removable = texts.encoded[1], ~texts.encoded[1].special

    def one_by_one(keep):
        return np.array([real.kept_logits(clf, [(everything, row)], progress=False)[0, 1] for row in keep])

    for order in ("morf", "lerf"):
        slow = perturbation_curve(one_by_one, maps[1], order=order, chunk=1, removable=removable).mean_logit
        assert made[f"{order} attnlrp"][1] == pytest.approx(slow, abs=1e-5)


def test_a_contrast_is_the_difference_of_two_logits():
    lm = lrp.load_classifier(*pre_norm("llama", task="ForCausalLM"))
    contrasts = real.Contrasts.of(lm, [(5, 7), (3, 9)])
    (text,) = lm.encode(["a film of rare grace"])
    one = [(text, np.ones(len(text), dtype=bool))]
    made, logits = (real.kept_logits(model, one, progress=False)[0].tolist() for model in (contrasts, lm))
    assert made == pytest.approx([logits[5] - logits[7], logits[3] - logits[9]], abs=1e-5)


def test_paths_are_rows_of_all_masks(clf, texts):
    paths, all_masks = real.paths_of(clf, texts)["r"], real.lattice_of(clf, texts)
    on_paths = [real_number(mask) for mask in ch.masks_on_paths(clf.card.layers)]
    kept = all_masks["r word words pearson"][:, on_paths].astype(float)
    place = real.readings_of(clf).index(("word", "words", "pearson"))
    assert paths[:, place] == pytest.approx(kept, abs=1e-3, nan_ok=True)


def real_number(mask: frozenset[int]) -> int:
    return sum(1 << (layer - 1) for layer in mask)


def test_a_part_goes_on_and_is_compared(clf, texts, tmp_path):
    def make(some):
        return real.explained(clf, some, removals=("attention-mask",), methods=("cp-lrp",), curve_chunk=None)

    said: list[str] = []
    options = {"clf": clf, "config": {"weights": "w"}, "chunk": 1, "say": said.append}
    whole, begun = tmp_path / "whole.npz", tmp_path / "begun.npz"
    real.summarise(whole, real.part_of(whole, texts, make, **options))
    real.part_of(begun, texts.at([1, 2]), make, **options)
    real.part_of(begun, texts, make, **options)
    assert said[-3] == "begun.npz: 2 texts are there, 2 to go"
    assert "4 texts in both, the same weights; largest difference of a map" in real.compared(begun, whole)
    rows = json.loads(whole.with_suffix(".json").read_text())["r"]
    assert {row["method"] for row in rows} == {"cp-lrp"}
    with pytest.raises(SystemExit, match="another configuration"):
        real.part_of(whole, texts, make, **{**options, "config": {"weights": "v"}})


def test_another_record_is_told_apart(clf, texts, tmp_path):
    for name, scale in (("a", 1.0), ("b", 1.5)):
        arrays = {"example": np.arange(2), "tokens": np.array([2, 1]), "word": np.ones(3, bool)}
        arrays["morf x"] = scale * np.ones(2)
        np.savez(tmp_path / f"{name}.npz", x=scale * np.array([1.0, -2.0, 4.0]), **arrays)
        (tmp_path / f"{name}.json").write_text(json.dumps({"config": {"weights": name}}))
    told = real.compared(tmp_path / "b.npz", tmp_path / "a.npz")
    assert "OTHER weights" in told and "of a map 5.0e-01" in told
    assert told.endswith("of a curve's mean 5.0e-01")


def test_layers_to_touch_come_back(clf, tmp_path):
    real.touch_layers(clf, TEXTS[:1], tmp_path / "touch.npz")
    (lattice,), (loo,) = real.touched_layers(tmp_path / "touch.npz")
    made = lrp.layer_lattice(clf, TEXTS[0])
    assert lattice.at("word+position").scores == pytest.approx(made.at("word+position").scores, rel=2e-3)
    assert (lattice.label, loo.tokens) == (made.label, made.tokens)


def test_curves_of_single_layers_are_those_of_their_maps(clf, texts):
    made = real.singles_of(clf, texts.at([1]), chunk=1)
    (lattice, text) = lrp.layer_lattice(clf, TEXTS[1], target=texts.targets[1]), texts.encoded[1]

    def one_by_one(keep):
        return np.array([real.kept_logits(clf, [(text, row)], progress=False)[0, 1] for row in keep])

    for layer in range(1, clf.card.layers + 1):
        ranking = lattice.at("word").scores[real_number(frozenset([layer]))]
        for order in ("morf", "lerf"):
            options = {"order": order, "chunk": 1, "removable": ~text.special}
            slow = perturbation_curve(one_by_one, ranking, **options).mean_logit
            assert made[f"{order} layer-{layer}"] == pytest.approx([slow], abs=1e-5)


def test_paths_take_a_loo_that_is_known(clf, texts):
    loo = [record.scores for record in lrp.attribute(clf, list(TEXTS), method="loo", target=texts.targets)]
    made, given = real.paths_of(clf, texts)["r"], real.paths_of(clf, texts, loo=loo)["r"]
    assert given == pytest.approx(made, abs=2e-4, nan_ok=True)
    other = real.paths_of(clf, texts, loo=[-scores for scores in loo])["r"]
    assert other == pytest.approx(-made, abs=2e-4, nan_ok=True)


@pytest.mark.parametrize(
    ("first", "examples"), [("longest", [4, 7, 2]), ("shortest", [2, 7, 4]), ("drawn", [7, 2, 4])]
)
def test_a_record_begins_where_it_is_told(tmp_path, first, examples):
    lengths, out = {7: 20, 2: 10, 4: 30}, tmp_path / "a.npz"
    options = {"config": {}, "told": lambda done: {}, "chunk": 2, "say": lambda line: None, "first": first}
    in_chunks(out, lengths, lambda some: {"example": np.array(some)}, **options)
    assert np.load(out)["example"].tolist() == examples


def test_one_example_of_a_record(tmp_path):
    path = tmp_path / "a.npz"
    arrays = {"example": np.array([5, 3]), "tokens": np.array([2, 1]), "word": np.ones(3, bool)}
    np.savez(path, x=np.array([1.0, 2.0, 4.0]), logit=np.array([8.0, 9.0]), seconds=np.ones(1), **arrays)
    assert {name: values.tolist() for name, values in real.of_example(path, 3).items()} == {
        "example": [3], "tokens": [1], "word": [True], "x": [4.0], "logit": [9.0],
    }  # fmt: skip
    assert real.of_example(path, 4) == {} == real.of_example(tmp_path / "none.npz", 3)


@pytest.mark.parametrize(("statistic", "slow"), [("pearson", pearson), ("spearman", spearman)])
def test_correlations_are_the_package_s(statistic, slow):
    draw = np.random.default_rng(0)
    maps, loo = draw.normal(size=(3, 7)).round(1), draw.normal(size=7)
    maps[1] = 2.0
    r = real.correlations(maps, loo, statistic)
    assert np.isnan(r[1]) and r[[0, 2]] == pytest.approx([slow(row, loo) for row in maps[[0, 2]]])
    assert np.isnan(real.correlations(maps, np.ones(7), statistic)).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_code_that_shares_nothing_gives_the_same_maps(clf, seed):
    place = Path(RESULTS) / "base/recompute.py"
    again = module_from_spec(spec := spec_from_file_location("recompute", place))
    spec.loader.exec_module(again)
    net = again.with_rules(copy.deepcopy(clf.network))
    methods = ("loo attention-mask", "attnlrp", "cp-lrp", "gradient-x-input", "mask-gradient", "ig")
    (text,) = clf.encode([TEXTS[seed]])
    found = again.maps(net, clf.tokenizer, torch.tensor(text.input_ids), seed, methods)
    for name, scores in found.items():
        method, _, position = name.partition("+")
        options = {"removal": "attention-mask"} if method.startswith("loo") else {}
        (record,) = lrp.attribute(clf, TEXTS[seed], method=method.split()[0], target=seed, **options)
        wanted = record.scores_at("word+position") if position else record.scores
        assert scores == pytest.approx(wanted, abs=2e-5 * np.abs(wanted).max()), name


# The chapter.


def test_r_of_is_r_text_by_text():
    kept, r = ch.part(LM, "facts-maps"), ch.r_of(LM, "facts-maps")
    one, loo = (real.by_text(kept, name) for name in ("cp-lrp", "loo attention-mask"))
    for k in (0, 40):
        at = {"explainer": "cp-lrp", "site": "word", "example": kept["example"][k]}
        made = r.sel(counted="no [CLS]", statistic="spearman", **at).item()
        assert made == pytest.approx(spearman(one[k][1:], loo[k][1:]), abs=1e-6)
    means = {
        (row["method"], row["tokens"], row["statistic"]): row["mean"]
        for row in ch.manifest(LM, "facts-maps")["r"]
    }
    assert float(
        r.sel(explainer="ig", site="word", counted="all", statistic="pearson").mean()
    ) == pytest.approx(means["ig", "all", "pearson"], abs=1e-4)


def test_shapley_is_read_over_the_texts_that_have_it():
    r = ch.r_of(LM, "facts-maps", "shapley")
    assert "loo attention-mask" in r.explainer and r.sizes["example"] == 72
    assert not np.isnan(r.sel(explainer="attnlrp", counted="all", statistic="pearson")).any()


def test_a_path_runs_from_attnlrp_to_cp_lrp():
    r = ch.r_of(LM, "facts-maps").sel(site="word", counted="all", statistic="pearson").mean("example")
    line = ch.path_means(LM, "facts", "back-to-front", "all")
    ends = r.sel(explainer=["attnlrp", "cp-lrp"]).values
    assert len(line) == 31 and line[[0, -1]] == pytest.approx(ends, abs=1e-4)


def test_outcomes_are_those_written_below_the_predictions():
    def points(rows):
        return {
            word: [row["point"] for row in rows if row["outcome"] == word] for word in (MET, MIXED, FAILED)
        }

    base = {MET: [*range(1, 7), 8, 9, *range(12, 16)], MIXED: [7], FAILED: [10, 11]}
    assert points(ch.base_outcomes(RESULTS)) == base
    assert points(ch.reviews_outcomes(RESULTS))[MET] == [*range(1, 8)]
    assert points(ch.drawn_outcomes(RESULTS))[FAILED] == [8, 9, 10]
    by_length = ch.reviews_outcomes(RESULTS)
    assert [row["point"] for row in by_length if any(item.open for item in row["items"])] == [3, 4, 5]
    assert points(ch.smollm2_outcomes(RESULTS)) == {MET: [*range(1, 13)], MIXED: [13, 14, 15, 16], FAILED: []}


def test_claims_at_the_paper_s_size():
    made = ch.claims_at_size(RESULTS)
    assert set(made) == set(range(6, 25))
    words = {
        "contradicted": [*range(6, 12), 14],
        "reproduced": [12, 13, 15],
        "undecided": [16, 21, 22],
        "no relevant difference": [*range(17, 21), 23, 24],
    }
    assert {k: word for k, (_, word) in made.items()} == {k: word for word, of in words.items() for k in of}
    assert "of 6" in made[8][0] and made[6][0].startswith("−")
    assert "base size" in str(ch.claims_table(records(RESULTS)))


def test_what_the_page_says_without_a_number_is_so():
    """Verdicts of claims that differ between two models; the order by Shapley values; paths of SmolLM2."""
    kept = records(RESULTS)
    here = {claim.number: claim for claim in ch.claims([kept.text("sst2-12"), kept.text("imdb-12")])}
    verdicts = {claim.number: claim.verdict for claim in judged_claims(RESULTS)}
    at_size = {k: word for k, (_, word) in ch.claims_at_size(RESULTS).items()}
    differ = {k for k, word in at_size.items() if word != here[k].verdict}
    assert differ == {6, 7, 12, 13, 14, 16, 21, 22}
    assert all(verdicts[k] == here[k].verdict for k in at_size), "the models of 6 layers change none"
    shapley = ch.trainings(RESULTS, "shapley")
    for statistic in ("pearson", "spearman"):
        by = ch.at(shapley, ch.WORDS, statistic).mean("example")
        order = [by.sel(explainer=m).values for m in ("ig", "attnlrp", "mask-gradient", "cp-lrp")]
        assert all((a > b).all() for a, b in zip(order[:-1], order[1:], strict=True))
        for name in ("ig", "attnlrp"):
            value = ch.gap(shapley, ch.WORDS, statistic, (name, "loo attention-mask"))
            assert value.low < 0 < value.high

    def shares(name, statistic):  # of the whole change: the last ten layers alone, the first twenty alone
        back, front = (
            ch.path_means(LM, name, path, "all", statistic=statistic)
            for path in ("back-to-front", "front-to-back")
        )
        whole = back[-1] - back[0]
        return (back[10] - back[0]) / whole, (front[20] - back[0]) / whole

    for statistic in ("pearson", "spearman"):
        late, early = shares("facts", statistic)
        assert late > 0.8 and early < 0.3
    assert min(*shares("sst2", "pearson"), *shares("sentences", "spearman")) > 0.8


def test_a_missing_record_is_one_line(tmp_path):
    (tmp_path / "base").mkdir()
    with pytest.raises(MissingRecord, match="chapter 9: got no"):
        ch.part(f"{tmp_path}/base", "sst2-seed-0-maps")


def test_what_the_page_on_own_models_prints_is_the_records() -> None:
    page = (Path(__file__).parents[1] / "book/your_model.md").read_text(encoding="utf-8")
    (prompt, *_) = json.loads((Path(LM) / "touch.json").read_text(encoding="utf-8"))["prompts"]
    (loo,) = [row for row in prompt["rows"] if row["method"] == "loo"]
    shown = [
        f"{token.strip():10} {score:+.3f} " for token, score in zip(loo["tokens"], loo["scores"], strict=True)
    ]
    assert all(line in page for line in shown) and f"logit {loo['logit']:.3f}" in page


def test_fitted_masks_are_judged_on_a_training_that_they_have_not_seen() -> None:
    base = Path(RESULTS) / "base"
    config = json.loads((base / "sst2-seed-0-lattice.json").read_text(encoding="utf-8"))["config"]
    every = [np.load(base / f"sst2-seed-{seed}-lattice.npz") for seed in range(3)]
    for row in ch.fitted_masks(RESULTS):
        site, tokens = ("word", "words") if row["read"] == "words" else ("word+position", "all")
        place = config["readings"].index([site, tokens, "pearson" if row["r"] == "Pearson" else "spearman"])
        a, b, c = (one["sum"][:, place].sum(0) / one["count"][:, place].sum(0) for one in every)
        third = int(row["judged on training"])
        first, second, judge = [(b, c, a), (a, c, b), (a, b, c)][third]
        best = max(range(4096), key=lambda mask: first[mask] + second[mask])
        assert row["fitted"] == pytest.approx(judge[best], abs=1e-6)
        assert row["lead"] == pytest.approx(judge[best] - judge[0], abs=1e-6)
        assert (row["lead"] > 0.05) == (row["read"] != "words")


def test_reviews_are_told_by_their_length_and_recomputed() -> None:
    """Two parts without a review in both; the differences are those of plain numpy."""
    long, short = (dict(np.load(f"{RESULTS}/base/{ch.REVIEWS}{end}.npz")) for end in ("", "-rest"))
    assert not set(long["example"]) & set(short["example"])
    assert short["tokens"].max() <= long["tokens"].min() and len(long["tokens"]) == 25
    drawn = np.random.default_rng(0).permutation(25_000)[:200]
    assert {*long["example"], *short["example"]} == {*drawn}
    d = []
    for kept in (long, short):
        cuts = np.cumsum(kept["tokens"])[:-1]
        of = {
            name: np.split(kept[name].astype(float), cuts) for name in ("word", *MAPS, "loo attention-mask")
        }
        for words, attn, cp, loo in zip(*of.values(), strict=True):
            here = words.astype(bool)
            r = [np.corrcoef(one[here], loo[here])[0, 1] for one in (cp, attn)]
            d.append((len(words), r[0] - r[1]))
    d.sort(key=lambda one: one[0])
    halves = [[value for _, value in some] for some in (d, d[:100], d[100:])]
    for some, row in zip(halves, ch.by_length(RESULTS), strict=True):
        value = row["words, pearson"]
        assert value.n == len(some) and row["reviews"].endswith(str(len(some)))
        assert value.mean == pytest.approx(np.mean(some), abs=1e-6)


def test_reviews_as_drawn_are_the_first_and_agree_with_the_other_parts() -> None:
    base = Path(RESULTS) / "base"
    maps, paths, singles = (
        dict(np.load(base / f"{ch.REVIEWS}-{kind}.npz")) for kind in ("maps", "paths", "singles")
    )
    drawn = np.random.default_rng(0).permutation(25_000)
    for kept in (maps, paths, singles):
        assert kept["example"].tolist() == drawn[: len(kept["example"])].tolist()
    for k, example in enumerate(maps["example"].tolist()):
        parts = [real.of_example(base / f"{ch.REVIEWS}{end}.npz", example) for end in ("", "-rest")]
        (known,) = [one for one in parts if one]
        for name in ("loo attention-mask", "cp-lrp+position"):
            assert real.by_text(maps, name)[k].tolist() == known[name].tolist()


def test_single_layers_and_halves_by_plain_numpy() -> None:
    """Claims 21 to 23 at base size, the arithmetic once more."""
    base = Path(RESULTS) / "base"
    for number, names in ((21, ch.SEEDS), (22, [ch.REVIEWS])):
        thirds, lines, depth = [], [], np.arange(12) - 5.5
        for name in names:
            kept = np.load(base / f"{name}-singles.npz")
            delta = np.array(
                [(kept[f"lerf layer-{k}"] - kept[f"morf layer-{k}"]).mean() for k in range(1, 13)]
            )
            thirds.append(4 * (delta[4:].mean() - delta[:4].mean()))
            lines.append(4 * 8 * (depth @ delta) / (depth @ depth))
        effects = ch._effects(RESULTS, ch.SPECS[number - 1])
        for effect, gains in zip(effects, (thirds, lines), strict=True):
            assert effect.value.mean == pytest.approx(np.mean(gains), abs=1e-6)
    config = json.loads((base / f"{ch.REVIEWS}-paths.json").read_text(encoding="utf-8"))["config"]
    kept, masks = np.load(base / f"{ch.REVIEWS}-paths.npz")["r"], ch.masks_on_paths(12)
    halves = [frozenset(range(7, 13)), frozenset(range(1, 7))] * 2
    readings = [["word", "words"]] * 2 + [["word+position", "all"]] * 2
    for half, reading, effect in zip(halves, readings, ch._effects(RESULTS, ch.SPECS[22]), strict=True):
        for by, value in (("pearson", effect.value), ("spearman", effect.rank)):
            r = kept[:, config["readings"].index([*reading, by])]
            gain = (r[:, masks.index(half)] - r[:, masks.index(frozenset())]).mean()
            assert value.mean == pytest.approx(gain, abs=1e-6)


def test_what_the_page_says_of_reviews_and_of_switches_is_so() -> None:
    """Sides of CP-LRP minus AttnLRP in reviews; r with layers 1 to 4 bypassed."""
    everywhere = ch.READ[ch.ALL]
    sides = [
        [
            side_of_zero(row[f"{read}, {by}"])
            for read in ("words", everywhere)
            for by in ("pearson", "spearman")
        ]
        for row in ch.by_length(RESULTS)
    ]
    of_pearson = ["across", "above", "across"]  # all tokens with positions: all reviews, short, long
    assert sides == [["below", "below", one, "below"] for one in of_pearson]
    every, statistics = ch.reviews(RESULTS), ("pearson", "spearman")
    order = np.argsort(ch.tokens_of(RESULTS), kind="stable")
    for some in (order, order[:100], order[100:]):  # positions, without <s>
        of = every.isel(example=some)
        assert all(ch.gap(of, ch.REST, by).high < 0 for by in statistics)
    on_sentences, before = ch.r_of(f"{RESULTS}/base", ch.ON_SENTENCES), ch.trainings(RESULTS)
    for by in statistics:
        gains = {
            reading: [
                side_of_zero(ch.independent_difference(ch.gap(r, reading, by), ch.gap(every, reading, by)))
                for r in (on_sentences, before)
            ]
            for reading in (ch.WORDS, ch.ALL, ch.REST)
        }
        assert gains[ch.WORDS] == ["below", "across"] and gains[ch.REST][0] == "below"
        assert gains[ch.ALL] == ["above", "above"]
    kept = ch.part(f"{RESULTS}/base", f"{ch.REVIEWS}-paths")
    config = ch.manifest(f"{RESULTS}/base", f"{ch.REVIEWS}-paths")["config"]
    steps = [ch.masks_on_paths(12).index(frozenset(half)) for half in (range(1, 7), ())]
    for by in statistics:
        r = kept["r"][:, config["readings"].index(["word+position", "no-first", by])][:, steps]
        assert ch.bootstrap_mean((r[:, 0] - r[:, 1]).astype(float)).high < 0
    lattices = zip(*real.touched_layers(Path(RESULTS) / "base/touch.npz"), strict=True)
    pairs = [(scores_at(lattice.parts, "word+position"), loo.scores) for lattice, loo in lattices]
    rises = [pearson(maps[0b1111], loo) > pearson(maps[0], loo) for maps, loo in pairs]
    assert rises.count(True) == 4 and len(rises) == 6

"""Chapter 8: what is computed from runs of several wirings and from records of images, against rows read by
hand, on small networks of the training script; and what the chapter says, against the committed records.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lrp_book import ch08_images as images
from lrp_book import ch08_wirings as ch
from lrp_book.ch08_judges import by_judge
from lrp_book.committed import load_sheets
from lrp_book.predictions import judged
from lrp_book.say import MissingRecord, say
from lrp_book.yardsticks import load

import lrp_companion as lrp
from lrp_companion.checks import InputError, SourceError
from lrp_companion.cli import main
from lrp_companion.lab.labelled import mean, r_with_loo, side
from lrp_companion.metrics.statistics import side_of_zero

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
TEXTS = (
    "a film of rare grace",
    "the plot is slow and the jokes are old",
    "warm , funny and true",
    "not a good film",
    "it never comes to life",
    "a quiet joy from start to end",
    "dull",
    "what a cast !",
)
METHODS = "loo,attnlrp,cp-lrp,mask-gradient,gradient-x-input"
TRAININGS = {"post-ln-first": 2, "post-ln-mean": 1, "modernbert": 1, "gpt2": 2, "llama": 3}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_wirings", ROOT / "training" / "train_wirings.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_wirings"] = module
    spec.loader.exec_module(module)
    return module


def save(script: ModuleType, wiring: str, seed: int, folder: Path) -> Path:
    """A small network of the script with random weights large enough that tokens matter."""
    import torch

    torch.manual_seed(seed)
    letters = [chr(k) for k in range(97, 123)] + [",", "!"]
    words = sorted({word for text in TEXTS for word in text.split()} - set(letters))
    pieces = [*script.SPECIAL, *letters, *(f"##{letter}" for letter in letters), *words]
    recipe = script.Recipe(layers=4, width=16, heads=2, inner=24, gated_inner=20, initial_scale=0.4)
    place = folder / f"{wiring}-seed-{seed}"
    script.network_of(wiring, recipe, len(pieces)).eval().save_pretrained(place)
    script.tokenizer_of(wiring, pieces, recipe.positions).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def groups(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple]:
    """Runs of small classifiers."""
    folder, out = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("results") / "wirings"
    texts = folder / "texts.csv"
    texts.write_text("text\n" + "\n".join(f'"{text}"' for text in TEXTS) + "\n")
    for wiring, count in TRAININGS.items():
        gates = ",attnlrp:gate=right,attnlrp:gate=flat" if ch.WIRINGS[wiring]["MLP"] == "gated" else ""
        for seed in range(count):
            place = save(script, wiring, seed, folder)
            options = ["--methods", METHODS + gates, "--removals", "attention-mask", "--targets", "logit"]
            options += ["--model", str(place), "--out", str(out / place.name), "--quiet"]
            options += [] if (wiring, seed) == ("gpt2", 1) else ["--keep-maps"]
            assert main(["run", str(texts), "--text", "text", *options]) == 0
    return ch.load_wirings(out)


@pytest.fixture(scope="module")
def chapter() -> dict[str, tuple]:
    """The runs that chapter 8 reads."""
    return ch.load_wirings(RESULTS / "wirings")


@pytest.fixture(scope="module")
def rows(chapter) -> dict[tuple[str, str], dict[str, Any]]:
    return ch.effects(chapter)


def by_hand(run: Any, method: str, reading: str = "words", statistic: str = "pearson") -> np.ndarray:
    """r for the logit by the attention mask, a row at a time, from the run's axes."""
    at = {**ch.READINGS[reading], "removal": "attention-mask", "target": "logit", "statistic": statistic}
    axes = run.manifest["axes"]
    names = ("site", "tokens", "removal", "target", "statistic")
    places, shape = [axes[name].index(at[name]) for name in names], [len(axes[name]) for name in names]
    rows = [row for row in run.tables["methods"].to_pylist() if row["method"] == method]
    flat = np.ravel_multi_index(places, shape)
    return np.array([row["r"][flat] for row in sorted(rows, key=lambda row: row["job"])])


def gap_by_hand(run: Any, *at: str) -> np.ndarray:
    return by_hand(run, "cp-lrp", *at) - by_hand(run, "attnlrp", *at)


# The models and their runs.


@pytest.mark.parametrize("wiring", list(TRAININGS))
def test_the_script_builds_what_the_table_of_wirings_says(script, wiring: str, tmp_path: Path):
    """Positions, MLP, readout and special tokens, as the package finds them in the network."""
    clf, told = lrp.load_classifier(save(script, wiring, 0, tmp_path), dtype="float64"), ch.WIRINGS[wiring]
    assert clf.encoder.wiring.gated == (told["MLP"] == "gated")
    assert clf.encoder.wiring.causal == (told["reads"] == "last token")
    weights = clf.network.state_dict()
    learned = any(name.endswith(("position_embeddings.weight", "wpe.weight")) for name in weights)
    assert learned == (told["positions"] == "learned")
    ids = clf.tokenizer(TEXTS[0])["input_ids"]
    specials = sum(k in clf.tokenizer.all_special_ids for k in ids)
    assert specials == ("none", "one", "two").index(told["special tokens"])


def test_the_script_takes_lots_in_order(script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sentences of reviews: as long as asked, the same in every run, the first lot first."""
    (tmp_path / "imdb").mkdir()
    reviews = [f"Good film number {k} , really. Bad. Another sentence of film {k} here!" for k in range(9)]
    labels = [k % 2 for k in range(9)]
    pq.write_table(pa.table({"text": reviews, "label": labels}), tmp_path / "imdb" / "train.parquet")
    monkeypatch.setattr(script, "LOTS", (5, 6))
    sentences, of_reviews = script.imdb_sentences(tmp_path)
    assert len(sentences) == 11 == len(set(sentences)) and "Bad." not in sentences
    assert of_reviews == [int(re.search(r"\d", text)[0]) % 2 for text in sentences]
    assert (sentences, of_reviews) == script.imdb_sentences(tmp_path)
    monkeypatch.setattr(script, "LOTS", (5, 0))
    assert script.imdb_sentences(tmp_path)[0] == sentences[:5]


def test_batches_keep_the_shares(script):
    recipe, other = (script.Recipe(seed=seed, batch=8, steps=64, imdb_share=0.625) for seed in (3, 4))
    lengths = list(range(1000))
    batches = script.plan(recipe, lengths, 400)
    assert len(batches) == 64 and {len(rows) for rows in batches} == {8}
    assert (np.concatenate(batches) >= 400).mean() == pytest.approx(0.625)
    assert batches == script.plan(recipe, lengths, 400) != script.plan(other, lengths, 400)


@pytest.mark.parametrize("wiring", list(ch.WIRINGS))
def test_the_weights_that_are_kept_are_those_of_the_records(wiring: str):
    """The hash of the training, and the one that the run was made with."""
    record = json.loads((RESULTS / "training/wirings" / f"{wiring}-seed-0.json").read_text())
    run = json.loads((RESULTS / "wirings" / f"{wiring}-seed-0" / "manifest.json").read_text())
    folder = ROOT / "training" / "wirings" / wiring
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == record["weights"]
    clf = lrp.load_classifier(str(folder))
    assert run["config"]["weights"] == clf.card.fingerprint and clf.labels == ("negative", "positive")
    checked = lrp.check(clf, ["a film of rare grace", "dull and far too long"])
    assert not checked.broken, checked


def test_every_run_has_the_record_of_its_training(tmp_path: Path):
    recorded = sorted((RESULTS / "training" / "wirings").glob("*.json"))
    runs = {path.parent.name for path in (RESULTS / "wirings").glob("*/manifest.json")}
    assert runs == {path.stem for path in recorded} and len(runs) == 15
    targets = ROOT / "training" / "wirings" / "targets"
    for path in recorded:
        for name, digest in json.loads(path.read_text())["targets"].items():
            assert hashlib.sha256((targets / name).read_bytes()).hexdigest()[:16] == digest
    for seed, right, recipe in ((1, 0.84, {"steps": 9, "bfloat16": True}), (0, 0.86, {"steps": 9})):
        record = {"wiring": "llama", "recipe": recipe, "sst2_validation": {"accuracy": right}}
        (tmp_path / f"llama-seed-{seed}.json").write_text(json.dumps(record))
    wanted = (("float32", 0.86), ("bfloat16", 0.84))
    made = [{"steps": 9, "numbers": numbers, "accuracy": right} for numbers, right in wanted]
    assert ch.training_records(tmp_path) == {"llama": made}


def test_runs_are_grouped_by_wiring_and_seed(groups):
    assert {name: len(runs) for name, runs in groups.items()} == TRAININGS and list(groups) == list(TRAININGS)
    assert [run.name for run in groups["llama"]] == [f"llama-seed-{k}" for k in range(3)]


# What is computed from them.


@pytest.mark.parametrize("statistic", ["pearson", "kendall"])
def test_effects_are_means_over_trainings(groups, statistic: str):
    effects = ch.effects(groups, statistic=statistic)
    counted = {name: sum(key[0] == name for key in effects) for name in TRAININGS}
    assert counted == {"post-ln-first": 4, "post-ln-mean": 4, "modernbert": 2, "gpt2": 2, "llama": 2}
    for (name, reading), row in effects.items():
        each = [gap_by_hand(run, reading, statistic) for run in groups[name]]
        assert row["trainings"] == pytest.approx([np.nanmean(d) for d in each], abs=1e-6)
        assert row["d"].mean == pytest.approx(np.mean(row["trainings"]), abs=1e-9) and row["n"] == len(TEXTS)
        d = np.concatenate(each)
        d = d[~np.isnan(d)]
        assert row["wins"].mean == pytest.approx(((d > 1e-9).mean() + (d > -1e-9).mean()) / 2)
        assert row["median"].mean == pytest.approx(np.median(d), abs=1e-6)
        for method in ch.METHODS:
            means = [np.nanmean(by_hand(run, method, reading, statistic)) for run in groups[name]]
            assert row[method].mean == pytest.approx(np.mean(means), abs=1e-6)


def test_a_sentence_without_its_records_is_left_out(groups):
    effects = ch.effects({"gpt2": groups["gpt2"]})
    at = effects["gpt2", "words"]  # it has no special tokens here
    for recorded, key in ((groups, "bert"), (effects, ("gpt2", "all tokens")), (at, "hybrid")):
        with pytest.raises(MissingRecord):
            recorded[key]
    assert say(lambda: f"{groups['bert']}", lambda: f"{at['d']}").left_out == 1


def test_what_r_is_worth_needs_maps_and_another_training(groups):
    worth = ch.worth(groups)
    assert set(worth) == {"post-ln-first", "llama"}  # a training of GPT-2's kept no maps
    first, *others = groups["llama"]

    def with_others(maps: list[np.ndarray]) -> list[float]:
        out = []
        for k, scores in enumerate(maps):
            keep = np.setdiff1d(np.arange(len(scores)), first.specials()[k])
            alike = [
                run for run in others if run.example_column("target")[k] == first.example_column("target")[k]
            ]
            r = [np.corrcoef(scores[keep], run.loo()[k][keep])[0, 1] for run in alike if len(keep) > 1]
            out.append(float(np.mean(r)) if r else np.nan)
        return out

    mine, other = by_hand(first, "cp-lrp"), with_others(first.maps("cp-lrp"))
    expected = {"own": mine, "other": other, "beyond": mine - other, "ceiling": with_others(first.loo())}
    for what, values in expected.items():
        made = worth["llama"].isel(training=0).sel(explainer="cp-lrp", what=what)
        assert float(made.mean()) == pytest.approx(np.nanmean(values), abs=1e-5)


def test_paths_go_from_attnlrp_to_cp_lrp(groups):
    step = 2**-16  # of a stored r: rounding may put one number on two neighbouring steps
    for run, *_ in groups.values():
        means = ch.path_means(run)
        ends = [np.nanmean(by_hand(run, method)) for method in ("attnlrp", "cp-lrp")]
        assert len(means) == 5 and [means[0], means[-1]] == pytest.approx(ends, abs=step)
        assert means[1] == pytest.approx(np.nanmean(run.r(frozenset({4}))))
        assert ch.later_and_first(run) == pytest.approx((means[2] - means[0], means[4] - means[2]))


def test_the_start_token_splits_the_sentences(chapter):
    run = chapter["llama"][1]
    d, start = gap_by_hand(run, "all tokens"), np.array([example[0] for example in run.loo()])
    assert min((start > 0).sum(), (start < 0).sum()) > 50
    assert ch.start_gap(run) == pytest.approx(np.nanmean(d[start > 0]) - np.nanmean(d[start < 0]), abs=1e-6)


def test_gates_order_the_groupings(groups):
    for share, method in ch.GATES.items():
        assert method in (f"attnlrp:gate={share.split()[-1]}", "attnlrp" if "uniform" in share else "")
    for run in (*groups["modernbert"], *groups["llama"]):
        r, row = {share: by_hand(run, method) for share, method in ch.GATES.items()}, ch.gates(run)
        for share, values in r.items():
            assert row[share].mean == pytest.approx(np.nanmean(values), abs=1e-6)
        gain = np.nanmean(r["1/2, uniform"] - r["1/4, from the right"])
        assert row["model"] == run.name and row["1/2 − 1/4"].mean == pytest.approx(gain, abs=1e-6)


def test_the_audit_counts_the_cells_of_the_first_training(groups):
    """From the labelled array, without the grid; an example without an r is in no mean."""
    words = {"above": "CP-LRP", "below": "AttnLRP"}
    for run, *_ in groups.values():
        row, d = ch.audit(run), ch.gap(r_with_loo(run, ["cp-lrp", "attnlrp"], map=["raw", "sum-to-one"]))
        whole = ~np.isnan(d).any("example") | np.isnan(d).all("example")
        sides = side(mean(d))
        known = sides.values[whole.values].tolist()
        for name in ("above", "below"):
            assert 0 <= row[name] - known.count(name) <= int((~whole).sum())
        assert row["cells"] == sides.size
        plain = {"map": "sum-to-one", "removal": "attention-mask", "target": "logit", "statistic": "pearson"}
        for reading, at in ch.READINGS.items():
            distinct = reading in ch.readings_of(run)
            nearer = words.get(sides.sel(**at, **plain).item(), "open") if distinct else "–"
            if whole.sel(**at, **plain):
                assert row[f"as stated, {reading}"] == nearer


def test_the_claim_is_tested_on_every_wiring_but_berts(groups):
    claim = ch.wiring_claim(26, groups)
    wanted = [f"wirings/{name}" for name in TRAININGS if not name.startswith("post-ln")]
    assert [effect.run for effect in claim.effects[::3]] == wanted and len(claim.effects) == 9
    words = {effect.run: effect.value for effect in claim.effects if effect.protocol.startswith("words only")}
    for name in ("modernbert", "llama"):
        gaps = [np.nanmean(gap_by_hand(run)) for run in groups[name]]
        assert words[f"wirings/{name}"].mean == pytest.approx(np.mean(gaps), abs=1e-6)
    assert all(effect.margin == 0.05 and effect.low == 0 for effect in claim.effects)
    weakest = ("contradicted", "no relevant difference", "undecided", "reproduced")
    first = [effect.verdict for effect in claim.effects[::3]]
    assert claim.verdict == min(first, key=weakest.index) and "reproduced" not in first
    ranks = {effect.run: effect.rank for effect in claim.effects if effect.protocol.startswith("words only")}
    by_rank = ch.effects(groups, statistic="spearman")
    assert all(ranks[f"wirings/{name}"] == by_rank[name, "words"]["d"] for name in ("modernbert", "gpt2"))
    assert ch.wiring_claim(26, {}).verdict == "not testable here"


# What was predicted.

HELD = {
    (1, "post-ln-first"): ({"words": -0.1, "all": 0.1}, {"words": -0.1, "all": -0.2}),
    (1, "post-ln-mean"): ({"words": -0.1, "all": -0.2}, {"words": -0.1, "all": 0.1}),
    (2, "llama"): ({"words": 0.1, "all": 0.2}, {"words": 0.1, "all": -0.1}),
    (2, "gpt2"): ({"words": 0.1, "positions": 0.2}, {"words": 0.1, "positions": -0.1}),
    (3, "gpt2"): ({"words": -0.01}, {"words": 0.01}),
    (4, "gpt2"): (
        {"mask-gradient": 0.9, "attnlrp": 0.8, "cp-lrp": 0.7},
        {"mask-gradient": 0.9, "attnlrp": 0.8, "cp-lrp": 0.95},
    ),
    (5, "llama"): ({"above - below": 0.1}, {"above - below": 0.09}),
    (6, "llama"): ({"layers 3, 4": -0.2, "layers 1, 2": 0.1}, {"layers 3, 4": 0.1, "layers 1, 2": -0.2}),
    (7, "llama"): ({"1/4": 0.5, "1/3": 0.505, "1/2": 0.51}, {"1/4": 0.5, "1/3": 0.52, "1/2": 0.515}),
}


@pytest.mark.parametrize(("number", "wiring"), list(HELD))
def test_a_point_holds_by_its_rule(number: int, wiring: str):
    (point,) = (p for p in ch.POINTS if p.number == number and wiring in p.groups)
    good, bad = HELD[number, wiring]
    assert point.holds(good) and not point.holds(bad)
    if number == 7:
        assert not point.holds({"1/4": 0.5, "1/3": 0.501, "1/2": 0.505})  # rises, but by less than 0.01


def test_outcomes_count_the_trainings_that_hold(groups):
    told = judged(ch.POINTS, groups)
    assert len(told) == sum(len(point.groups) for point in ch.POINTS)
    every = {"words": "words", "positions": "words + positions", "all": "all tokens + positions"}
    for row in told:
        point = next(p for p in ch.POINTS if (p.number, p.says) == (row["point"], row["says"]))
        held = [point.holds(figures) for figures in row["figures"]]
        assert row["held"] == sum(held) and row["of"] == TRAININGS[row["group"]] == len(held)
        assert row["outcome"] == ("met" if all(held) else "mixed" if any(held) else "failed")
        readings = {**every, "all": "all tokens"} if row["point"] == 2 else every
        shares = {share[:3]: method for share, method in ch.GATES.items()}
        for run, figures in zip(groups[row["group"]], row["figures"], strict=True):
            if row["point"] <= 3:
                expected = {name: np.nanmean(gap_by_hand(run, readings[name])) for name in figures}
            elif row["point"] in (4, 7):
                expected = {name: np.nanmean(by_hand(run, shares.get(name, name))) for name in figures}
            else:
                continue
            assert figures == pytest.approx(expected, abs=1e-6)
    shown = ch.outcomes_table(told, caption="c")
    assert shown.cells[0][:2] == ("1", ch.POINTS[0].says) and " of 2)" in shown.cells[0][3]
    with pytest.raises(InputError, match="point 7 needs them"):
        judged(ch.POINTS, {"llama": groups["gpt2"]})  # no gates were run


def test_every_point_of_the_prediction_is_judged():
    """The file that was committed before the runs has as many points."""
    text = (RESULTS / "predictions" / "2026-11-24-wirings.md").read_text()
    numbers = {int(line.split(".")[0]) for line in text.splitlines() if line[:1].isdigit() and "*" in line}
    assert numbers == {point.number for point in ch.POINTS} == set(range(1, 8))


# What the chapter says.


def test_what_the_chapter_says_of_sides_holds(chapter, rows):
    for name in ch.WIRINGS:
        behind = name in ("post-ln-mean", "modernbert")
        assert side_of_zero(rows[name, "words"]["d"]) == ("below" if behind else "across")
    for key in (("llama", "all tokens"), ("gpt2", "words + positions")):
        assert side_of_zero(rows[key]["d"]) == "across"
    llama = [side_of_zero(mean(ch.gap(ch.r_at(run)))) for run in chapter["llama"]]
    assert sorted(llama) == ["above", "across", "across"]
    held = {row["group"]: row["held"] for row in judged(ch.POINTS, chapter) if row["point"] == 6}
    assert held == {**dict.fromkeys(ch.WIRINGS, 0), "llama": 2}
    for name in ("post-ln-first", "gpt2"):
        for later, first in map(ch.later_and_first, chapter[name]):
            assert later > 0 > first and -first > later
    for reading in ("all tokens", "all tokens + positions"):
        for run in chapter["post-ln-first"]:
            later, first = ch.later_and_first(run, reading)
            assert later > first > 0
    modernbert, llama = (
        [ch.gates(run)["1/2 − 1/4"].mean for run in chapter[name]] for name in ("modernbert", "llama")
    )
    assert -0.005 < min(modernbert) < max(modernbert) < 0 < min(llama) < max(llama) < 0.005


MASKED = ("mask-gradient", "attnlrp")


def test_what_the_chapter_says_of_the_mask_gradient_holds(chapter, rows):
    def lead(rival: str, run: Any) -> str:
        r = ch.r_at(run, explainers=("mask-gradient", rival))
        return side_of_zero(mean(ch.gap(r, "mask-gradient", rival)))

    for name, runs in chapter.items():
        over = mean(ch.gap(ch.r_at(runs, explainers=MASKED), *MASKED))
        assert over.mean > 0 and side_of_zero(over) == ("above" if name == "llama" else "across")
        assert {lead("attnlrp", runs[0]), lead("cp-lrp", runs[0])} == {"above"}
    others = [run for runs in chapter.values() for run in runs[1:]]
    assert [lead("cp-lrp", run) for run in others] == ["above"] * 10
    sides = {run.name: lead("attnlrp", run) for run in others}
    open_ones = [name for name, came in sides.items() if came == "across"]
    assert len(open_ones) == 5 and sum(name.startswith("modernbert") for name in open_ones) == 2
    assert list(sides.values()).count("above") == 5
    counted = rows["llama", "all tokens"]
    assert counted["mask-gradient"].mean < counted["attnlrp"].mean


def test_what_the_first_picture_shows(chapter):
    """By rank the mask gradient is first in every wiring by LOO, and by Shapley values in none."""
    records = load(RESULTS / "shapley", *ch.WIRINGS)
    for statistic in ch.STATISTIC:
        first = {
            judge: {max(methods, key=lambda name: methods[name].mean) for methods in of.values()}
            for judge, of in by_judge(chapter, records, statistic).items()
        }
        assert "mask-gradient" not in first["Shapley values"]
        assert first["LOO"] == {"mask-gradient"}


def test_what_the_chapter_says_of_ranks_holds(chapter):
    behind, leads = dict.fromkeys(("modernbert", "llama"), "below"), {}
    for name, runs in chapter.items():
        by_rank, pearson = (
            ch.r_at(runs, explainers=(*MASKED, "cp-lrp"), statistic=one) for one in ("spearman", "pearson")
        )
        assert side_of_zero(mean(ch.gap(by_rank))) == behind.get(name, "across")
        ahead = mean(ch.gap(by_rank, *MASKED))
        assert ahead.low > 0 and ahead.mean > mean(ch.gap(pearson, *MASKED)).mean
        leads[name] = ahead.mean
    assert (min(leads, key=leads.__getitem__), max(leads, key=leads.__getitem__)) == ("llama", "modernbert")
    counted = mean(ch.gap(ch.r_at(chapter["post-ln-first"], "all tokens + positions", statistic="spearman")))
    assert side_of_zero(counted) == "across" and counted.mean < 0.02


def test_what_the_chapter_says_of_steps_holds(rows):
    trained = ch.training_records(RESULTS / "training" / "wirings")
    made = {(row["steps"], row["numbers"]) for rows in trained.values() for row in rows}
    assert made == {(5000, "bfloat16")} and set(trained) == set(ch.WIRINGS)
    right = {name: [row["accuracy"] for row in rows] for name, rows in trained.items()}
    assert min(min(values) for values in right.values()) >= 0.8495
    assert sum(value < 0.85 for values in right.values() for value in values) == 2
    assert {value for values in right.values() for value in values if value < 0.85} == {round(741 / 872, 4)}
    best = max(max(right[name]) for name in ("post-ln-first", "post-ln-mean", "gpt2"))
    assert min(right["modernbert"]) > best and sum(value > best for value in right["llama"]) == 2
    files = [RESULTS / f"wirings-2000-steps{end}.json" for end in ("", "-bfloat16")]
    words = [row for row in ch.steps_rows(rows, trained, *files) if row["reading"] == "words"]
    of = {name: [row for row in words if row["wiring"] == name] for name in ch.WIRINGS}
    long = (5000, "bfloat16")
    for name, lengths in of.items():
        short = [(2000, "float32"), *([(2000, "bfloat16")] if name == "gpt2" else [])]
        assert [row["made"] for row in lengths] == [*short, long]
        before, after = lengths[0], lengths[-1]
        assert after["d"].mean < before["d"].mean
        assert after["mask-gradient"].mean < before["mask-gradient"].mean
        assert (after["attnlrp"].mean < before["attnlrp"].mean) == (name != "modernbert")
    short, in_bfloat16, after = (row["trainings"] for row in of["gpt2"])
    assert min(*short, *in_bfloat16) > 0 > max(after)
    short, after = (row["trainings"] for row in of["llama"])
    assert min(short) > 0 and sum(value < 0 for value in after) == 1
    with pytest.raises(SourceError, match="no results/other.json; expected a record of effects"):
        ch.steps_rows(rows, trained, "results/other.json")


@pytest.fixture(scope="module")
def frontier(chapter) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in ch.frontiers(chapter)}


def test_the_frontier_of_a_wiring_is_that_of_its_rows(frontier):
    """Mean r, passes and paired differences, from the columns as they are in the files."""
    for name in ("modernbert", "llama"):
        table = pq.read_table(RESULTS / "wirings" / f"{name}-seed-0" / "methods.parquet").to_pylist()
        table.sort(key=lambda row: row["job"])
        of = {method: [row for row in table if row["method"] == method] for method in frontier}
        r = {method: np.array([row["r"][0] for row in rows]) for method, rows in of.items()}
        cost = {method: np.mean([sum(row["passes"]) for row in rows]) for method, rows in of.items()}
        for method, row in frontier.items():
            assert row["r"][name].mean == pytest.approx(np.nanmean(r[method]), abs=1e-6)
            for rival in set(frontier) - {method}:
                d = (r[rival] - r[method])[~np.isnan(r[rival] - r[method])]
                errors = d.mean() / (d.std() / np.sqrt(len(d)))
                if rival in row["dominated by"][name]:
                    assert cost[rival] <= cost[method] and errors > 1.5
                else:
                    assert cost[rival] > cost[method] or errors < 2.5


def test_what_the_chapter_says_of_the_frontiers_holds(frontier, groups):
    costs = [row["cost"] for row in frontier.values()]
    assert costs == sorted(costs) and list(frontier)[-1] == "loo"
    for name in ch.WIRINGS:
        left = [method for method, row in frontier.items() if not row["dominated by"][name]]
        assert left == ["mask-gradient", "hybrid:exact=4", "hybrid:exact=8", "loo"]
        for method in ("attnlrp", "cp-lrp", "mask-gradient:groups=4", "mask-gradient:groups=8"):
            ahead = "hybrid:exact=8" if "groups" in method else "mask-gradient"
            assert ahead in frontier[method]["dominated by"][name]
    means = {method: {name: r.mean for name, r in row["r"].items()} for method, row in frontier.items()}
    for method in list(frontier)[:-1]:
        assert min(means[method], key=means[method].__getitem__) == "modernbert"
    gains = {name: means["hybrid:exact=4"][name] - means["mask-gradient"][name] for name in ch.WIRINGS}
    assert max(gains, key=gains.__getitem__) == "modernbert"
    with pytest.raises(InputError, match="without mask-gradient:groups=4"):
        ch.frontiers(groups)


# The model of images.

recorded = pytest.mark.skipif(not (RESULTS / "vit").is_dir(), reason="the records are not in this checkout")


@recorded
def test_r_of_images_is_that_of_the_records():
    sheets = load_sheets(RESULTS / "vit")
    r = images.r_of_images(sheets)
    assert r.sizes == {"training": 3, "explainer": 20, "reading": 4, "example": 500}
    masks = {"attnlrp": [], "cp-lrp": [1, 2, 3, 4], "lrp:bypass=4": [4], "lrp:bypass=2+3+4": [2, 3, 4]}
    for k, sheet in enumerate(sheets):
        by = {
            (row["method"], str(row["bypass"]), row["site"], row["tokens"]): row["r"] for row in sheet["rows"]
        }
        for reading, (site, tokens) in images.READINGS.items():
            at = r.isel(training=k).sel(reading=reading)
            wanted = {name: by["lrp", str(mask), site, tokens] for name, mask in masks.items()}
            wanted["gradient-x-input"] = by["gradient-x-input", "None", site, tokens]
            wanted["mask-gradient"] = by["mask-gradient", "None", "word", tokens]
            for name, values in wanted.items():
                np.testing.assert_array_equal(at.sel(explainer=name), np.array(values, dtype=float))
    shown = images.readings_table(r, "mask-gradient", caption="c")
    d = mean(r.sel(explainer="cp-lrp", reading="patches") - r.sel(explainer="attnlrp", reading="patches"))
    assert shown.cells[0][3] == d.text(2) and [cells[0] for cells in shown.cells] == list(images.READINGS)


def made_up(gaps: dict[str, float], *, lead: float, last: float, position: float) -> dict[str, Any]:
    """A record whose differences are these, each with a little noise."""
    noise = np.linspace(-0.01, 0.01, 20)
    rows: list[dict[str, Any]] = []
    for reading, (site, tokens) in images.READINGS.items():
        base = 0.3 + noise + (position if site == "word+position" else 0.0)
        of = {(): base, (1, 2, 3, 4): base + gaps[reading] + 0.5 * noise, (4,): base + last - 0.5 * noise}
        at = {"site": site, "tokens": tokens}
        rows += [{"method": "lrp", "bypass": list(mask), **at, "r": list(r)} for mask, r in of.items()]
        if site == "word":
            rows.append({"method": "mask-gradient", "bypass": None, **at, "r": list(base + lead + noise)})
    return {"config": {"layers": 4}, "example": list(range(20)), "rows": rows}


def test_outcomes_follow_the_rule_of_the_prediction():
    def came(*gaps: float, **others: float) -> list[str]:
        record = made_up(dict(zip(images.READINGS, gaps, strict=True)), **others)
        return [outcome for outcome, _ in images.outcomes(images.r_of_images([record]).isel(training=0))]

    assert came(-0.1, -0.1, 0.1, 0.1, lead=0.3, last=0.1, position=0.1) == ["met"] * 5
    assert came(-0.1, -0.1, -0.1, -0.1, lead=-0.05, last=-0.1, position=-0.1) == ["failed"] * 5
    assert came(0, 0, 0, 0, lead=0.3, last=0, position=0.1) == ["open", "open", "met", "met", "open"]
    assert came(-0.1, 0, 0, 0, lead=0.3, last=0.1, position=0.1)[1] == "open"


def test_records_that_do_not_fit_are_refused():
    record = made_up(dict.fromkeys(images.READINGS, 0.1), lead=0.3, last=0.1, position=0.1)
    with pytest.raises(InputError, match="records of other images"):
        images.r_of_images([record, {**record, "example": list(range(1, 21))}])
    part = [row for row in record["rows"] if row["tokens"] == "all"]
    with pytest.raises(InputError, match="no rows at site word, patches; site word.position, patches"):
        images.r_of_images([{**record, "rows": part}])


@recorded
def test_what_the_chapter_says_of_images_holds():
    sheets = load_sheets(RESULTS / "vit")
    r = images.r_of_images(sheets)
    came = [[outcome for outcome, _ in images.outcomes(r.isel(training=k))] for k in range(3)]
    assert came == [
        ["met", "met", "met", "met", "failed"],
        ["open", "open", "met", "met", "failed"],
        ["met", "met", "met", "met", "failed"],
    ]

    def sides(a: str, b: str, reading: str) -> list[str]:
        d = r.sel(explainer=a, reading=reading) - r.sel(explainer=b, reading=reading)
        return [*(side_of_zero(mean(d.isel(training=k))) for k in range(3)), side_of_zero(mean(d))]

    assert sides("cp-lrp", "attnlrp", "patches") == ["below"] * 4
    assert sides("cp-lrp", "attnlrp", "all tokens + positions") == ["above", "across", "above", "across"]
    assert sides("mask-gradient", "attnlrp", "patches") == ["above"] * 4
    assert sides("mask-gradient", "attnlrp", "patches + positions") == [*["below"] * 3, "across"]
    right = [one["mnist_test"]["accuracy"] for one in load_sheets(RESULTS / "training/vit")]
    assert len(right) == len(sheets) and min(right) >= 0.97 and r.sizes["example"] >= 500

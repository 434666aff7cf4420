"""Classifiers of several wirings: small networks of the training script through the runner, and what the
analysis says of them against rows read by hand.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from lrp_book import views
from lrp_book.analysis import findings, wiring_steps, wirings
from lrp_book.analysis.wiring_frontier import METHODS as METHODS_OF_FRONTIER
from lrp_book.analysis.wiring_frontier import wiring_frontier
from lrp_book.committed import Records
from lrp_book.say import MissingRecord

import lrp_companion as lrp
from lrp_companion.checks import InputError, SourceError
from lrp_companion.cli import main
from lrp_companion.metrics.statistics import side_of_zero
from lrp_companion.paper import protocol_grid
from lrp_companion.schema import Protocol

ROOT = Path(__file__).resolve().parent.parent
TEXTS = (
    "a film of rare grace", "the plot is slow and the jokes are old", "warm , funny and true",
    "not a good film", "it never comes to life", "a quiet joy from start to end", "dull", "what a cast !",
)  # fmt: skip
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
    network = script.network_of(wiring, recipe, len(pieces)).eval()
    place = folder / f"{wiring}-seed-{seed}"
    network.save_pretrained(place)
    script.tokenizer_of(wiring, pieces, recipe.positions).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def results(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of records with runs of small classifiers."""
    folder, out = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("results") / "wirings"
    texts = folder / "texts.csv"
    texts.write_text("text\n" + "\n".join(f'"{text}"' for text in TEXTS) + "\n")
    for wiring, count in TRAININGS.items():
        for seed in range(count):
            place = save(script, wiring, seed, folder)
            gates = ",attnlrp:gate=right,attnlrp:gate=flat" if wirings.WIRINGS[wiring].mlp == "gated" else ""
            options = ["--methods", METHODS + gates, "--removals", "attention-mask", "--targets", "logit"]
            options += [] if seed else ["--keep-maps"]
            code = main(["run", str(texts), "--text", "text", "--model", str(place), "--quiet", *options,
                         "--out", str(out / place.name)])  # fmt: skip
            assert code == 0
    return out.parent


@pytest.fixture(scope="module")
def groups(results: Path) -> dict[str, tuple]:
    return wirings.load_wirings(results / "wirings")


def test_runs_are_grouped_by_wiring_and_seed(groups):
    assert {name: len(runs) for name, runs in groups.items()} == TRAININGS and list(groups) == list(TRAININGS)
    assert [run.name for run in groups["llama"]] == [f"llama-seed-{k}" for k in range(3)]


@pytest.mark.parametrize("wiring", list(TRAININGS))
def test_the_script_builds_what_the_table_of_wirings_says(script, wiring: str, tmp_path: Path):
    """Norms, positions, MLP, readout and special tokens, as the package finds them in the network."""
    clf = lrp.load_classifier(save(script, wiring, 0, tmp_path), dtype="float64")
    read, told = clf.encoder.wiring, wirings.WIRINGS[wiring]
    assert read.gated == (told.mlp == "gated")
    learned = any(
        name.endswith(("position_embeddings.weight", "wpe.weight")) for name in clf.network.state_dict()
    )
    assert learned == (told.positions == "learned")
    ids = clf.tokenizer(TEXTS[0])["input_ids"]
    specials = sum(k in clf.tokenizer.all_special_ids for k in ids)
    assert specials == {"two": 2, "none": 0, "one": 1}[told.specials]
    causal = told.reads == "last token"
    words = clf.tokenizer("a film of")["input_ids"], clf.tokenizer("a film of joy")["input_ids"]
    assert len(words[1]) == len(words[0]) + 1
    assert clf.encoder.wiring.causal == causal


def by_hand(run: Any, method: str, site: str, tokens: str) -> np.ndarray:
    """r for the logit by the attention mask, a row at a time, from the run's axes."""
    axes = run.manifest["axes"]
    names = ("site", "tokens", "removal", "target", "statistic")
    shape = [len(axes[name]) for name in names]
    where = (axes["site"].index(site), axes["tokens"].index(tokens), 0, 0, 0)
    flat = int(np.ravel_multi_index(where, shape))
    rows = [row for row in run.tables["methods"].to_pylist() if row["method"] == method]
    return np.array([row["r"][flat] for row in sorted(rows, key=lambda row: row["job"])])


def test_effects_are_means_over_trainings(groups):
    rows = {(row["wiring"], row["reading"]): row for row in wirings.effect_rows(groups)}
    counted = {name: sum(key[0] == name for key in rows) for name in TRAININGS}
    assert counted == {"post-ln-first": 4, "post-ln-mean": 4, "modernbert": 2, "gpt2": 2, "llama": 2}
    row = rows["llama", "all tokens"]
    gaps = [
        np.nanmean(by_hand(run, "cp-lrp", "word", "all") - by_hand(run, "attnlrp", "word", "all"))
        for run in groups["llama"]
    ]
    assert row["trainings"] == pytest.approx(gaps, abs=1e-6)
    assert row["d"].mean == pytest.approx(np.mean(gaps), abs=1e-6) and row["n"] == len(TEXTS)
    assert row["attnlrp"].mean == pytest.approx(
        np.mean([np.nanmean(by_hand(run, "attnlrp", "word", "all")) for run in groups["llama"]]), abs=1e-6
    )
    alone = rows["modernbert", "words"]
    assert alone["d"].mean == pytest.approx(alone["trainings"][0], abs=1e-12)


def test_what_r_is_worth_needs_maps_and_another_training(groups):
    rows = wirings.worth_rows(groups)
    assert {row["wiring"] for row in rows} == {"post-ln-first", "gpt2", "llama"}  # GPT-2: no special token
    first, *others = groups["llama"]
    row = next(row for row in rows if (row["wiring"], row["method"]) == ("llama", "cp-lrp"))
    maps, specials = first.maps("cp-lrp"), first.specials()
    expected = []
    for k, scores in enumerate(maps):
        keep = np.setdiff1d(np.arange(len(scores)), specials[k])
        r = [
            np.corrcoef(scores[keep], other.loo()[k][keep])[0, 1]
            for other in others
            if other.example_column("target")[k] == first.example_column("target")[k] and len(keep) > 1
        ]
        expected.append(np.mean(r) if r else np.nan)
    assert row["other"].mean == pytest.approx(np.nanmean(expected), abs=1e-5)
    assert row["own"].mean == pytest.approx(
        np.nanmean(by_hand(first, "cp-lrp", "word", "no-special")), abs=1e-6
    )


def test_paths_go_from_attnlrp_to_cp_lrp(groups):
    step = 2**-16  # of a stored r: rounding may put one number on two neighbouring steps
    for run, *_ in groups.values():
        means = wirings.path_means(run)
        assert len(means) == 5
        assert means[0] == pytest.approx(wirings.mean_r(run, "attnlrp"), abs=step)
        assert means[-1] == pytest.approx(wirings.mean_r(run, "cp-lrp"), abs=step)
        later, first = wirings.later_and_first(run)
        assert later == pytest.approx(means[2] - means[0]) and first == pytest.approx(means[4] - means[2])


def test_the_start_token_splits_the_sentences(groups):
    run = groups["llama"][1]
    difference = by_hand(run, "cp-lrp", "word", "all") - by_hand(run, "attnlrp", "word", "all")
    start = np.array([example[0] for example in run.loo()])
    above, below = difference[start > 0], difference[start < 0]
    if len(above) and len(below):
        assert wirings.start_gap(run) == pytest.approx(np.nanmean(above) - np.nanmean(below), abs=1e-6)
    assert len(above) + len(below) == len(TEXTS)


def test_gates_order_the_groupings(groups):
    rows = wirings.gate_rows(groups)
    assert [row["run"] for row in rows] == ["modernbert-seed-0", *(f"llama-seed-{k}" for k in range(3))]
    for row in rows:
        run = next(run for runs in groups.values() for run in runs if run.name == row["run"])
        for method in wirings.GATES:
            expected = np.nanmean(by_hand(run, method, "word", "no-special"))
            assert row[method].mean == pytest.approx(expected, abs=1e-6)


HELD = {
    (1, "post-ln-first"): ({"words": -0.1, "all": 0.1}, {"words": -0.1, "all": -0.2}),
    (1, "post-ln-mean"): ({"words": -0.1, "all": -0.2}, {"words": -0.1, "all": 0.1}),
    (2, "llama"): ({"words": 0.1, "all": 0.2}, {"words": 0.1, "all": -0.1}),
    (2, "gpt2"): ({"words": 0.1, "positions": 0.2}, {"words": 0.1, "positions": -0.1}),
    (3, "gpt2"): ({"words": -0.01}, {"words": 0.01}),
    (4, "gpt2"): ({"mask-gradient": 0.9, "attnlrp": 0.8, "cp-lrp": 0.7},
                  {"mask-gradient": 0.9, "attnlrp": 0.8, "cp-lrp": 0.95}),
    (5, "llama"): ({"above - below": 0.1}, {"above - below": 0.09}),
    (6, "llama"): ({"layers 3, 4": -0.2, "layers 1, 2": 0.1}, {"layers 3, 4": 0.1, "layers 1, 2": -0.2}),
    (7, "llama"): ({"1/4": 0.5, "1/3": 0.505, "1/2": 0.51}, {"1/4": 0.5, "1/3": 0.52, "1/2": 0.515}),
}  # fmt: skip


@pytest.mark.parametrize(("number", "wiring"), list(HELD))
def test_a_point_holds_by_its_rule(number: int, wiring: str):
    (point,) = (p for p in wirings.POINTS if p.number == number and wiring in p.groups)
    good, bad = HELD[number, wiring]
    assert point.holds(good) and not point.holds(bad)
    if number == 7:
        assert not point.holds({"1/4": 0.5, "1/3": 0.501, "1/2": 0.505})  # rises, but by less than 0.01


def test_outcomes_count_the_trainings_that_hold(groups):
    rows = wirings.outcomes(groups)
    assert len(rows) == sum(len(point.groups) for point in wirings.POINTS)
    for row in rows:
        point = next(p for p in wirings.POINTS if (p.number, p.says) == (row["point"], row["says"]))
        held = [point.holds(figures) for figures in row["figures"]]
        assert row["held"] == sum(held) and row["of"] == TRAININGS[row["wiring"]] == len(held)
        expected = "met" if all(held) else "mixed" if any(held) else "failed"
        assert row["outcome"] == expected
    leads = next(row for row in rows if row["point"] == 4 and row["wiring"] == "gpt2")["figures"][0]
    assert leads == {name: wirings.mean_r(groups["gpt2"][0], name) for name in leads}


def test_a_run_without_what_a_point_needs_is_refused(groups):
    plain = {"llama": groups["gpt2"]}  # no gates were run
    with pytest.raises(InputError, match="point 7 needs them"):
        wirings.outcomes(plain)


def test_every_point_of_the_prediction_is_judged():
    """The file that was committed before the runs has as many points."""
    text = (ROOT / "results" / "predictions" / "2026-11-24-wirings.md").read_text()
    numbers = {int(line.split(".")[0]) for line in text.splitlines() if line[:1].isdigit() and "*" in line}
    assert numbers == {point.number for point in wirings.POINTS} == set(range(1, 8))


def test_the_script_takes_lots_in_order(script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sentences of reviews: as long as asked, the same in every run, the first lot first."""
    import pyarrow as pa

    (tmp_path / "imdb").mkdir()
    reviews = [f"Good film number {k} , really. Bad. Another sentence of film {k} here!" for k in range(9)]
    pq.write_table(pa.table({"text": reviews}), tmp_path / "imdb" / "train.parquet")
    monkeypatch.setattr(script, "LOTS", (5, 6))
    sentences = script.imdb_sentences(tmp_path)
    assert len(sentences) == 11 == len(set(sentences)) and "Bad." not in sentences
    assert sentences == script.imdb_sentences(tmp_path)
    monkeypatch.setattr(script, "LOTS", (5, 0))
    assert script.imdb_sentences(tmp_path) == sentences[:5]


def test_batches_keep_the_shares(script):
    recipe = script.Recipe(seed=3, batch=8, steps=64, imdb_share=0.625)
    lengths = list(range(1000))
    batches = script.plan(recipe, lengths, 400)
    assert len(batches) == 64 and {len(rows) for rows in batches} == {8}
    rows = np.concatenate(batches)
    assert (rows >= 400).mean() == pytest.approx(0.625) and batches == script.plan(recipe, lengths, 400)
    other = script.Recipe(seed=4, batch=8, steps=64, imdb_share=0.625)
    assert batches != script.plan(other, lengths, 400)


def test_sentences_take_their_numbers_from_these_runs(groups, results: Path):
    """Chapter 8's names, through the catalogue of all findings, against the rows of the tables."""
    kept = Records({}, {}, {}, [], [], str(results))
    rows = {(row["wiring"], row["reading"]): row for row in wirings.effect_rows(groups)}
    for name, key, column in (
        ("llama, CP-LRP minus AttnLRP, all tokens", ("llama", "all tokens"), "d"),
        ("gpt2, mask-gradient, words", ("gpt2", "words"), "mask-gradient"),
        ("post-ln-mean, wins, words", ("post-ln-mean", "words"), "wins"),
    ):
        assert findings.CATALOGUE[name](kept) == rows[key][column], name
    judged = [row["outcome"] for row in wirings.outcomes(groups)]
    for outcome in ("met", "failed", "mixed"):
        assert findings.CATALOGUE[f"wirings, predictions {outcome}"](kept) == judged.count(outcome)
    gain = findings.CATALOGUE["llama, grouping, uniform minus right"](kept)
    by_run = [row["gain"].mean.mean for row in wirings.gate_rows(groups) if row["wiring"] == "llama"]
    assert gain.mean == pytest.approx(np.mean(by_run), abs=1e-6)
    lead = findings.CATALOGUE["llama, mask gradient minus AttnLRP"](kept)
    row = rows["llama", "words"]
    assert lead.mean == pytest.approx(row["mask-gradient"].mean - row["attnlrp"].mean, abs=1e-6)
    worth = findings.CATALOGUE["llama, worth of attnlrp, other"](kept)
    assert worth == next(
        row["other"]
        for row in wirings.worth_rows(groups)
        if (row["wiring"], row["method"]) == ("llama", "attnlrp")
    )


def test_the_audit_counts_the_cells_of_the_first_training(groups, tmp_path: Path):
    rows = wirings.audit_rows(groups)
    for row in rows:
        cells = protocol_grid.grid(groups[row["wiring"]][0])
        sides = [side_of_zero(line["difference"]) for line in cells.curve()]
        assert (row["above"], row["below"]) == (sides.count("above"), sides.count("below"))
        stated = cells.cell(Protocol(map="sum-to-one"))["difference"]
        words = {"above": "CP-LRP", "below": "AttnLRP"}
        assert row["stated"]["words"] == words.get(side_of_zero(stated), "open")
    shown = repr(views.audit_table(rows, caption="Audit"))
    assert all(wiring.title in shown for wiring in wirings.WIRINGS.values())
    recipes = ({"steps": 9}, {"steps": 9, "bfloat16": True})
    for seed, right in ((1, 0.84), (0, 0.86)):
        record = {"wiring": "llama", "recipe": recipes[seed], "sst2_validation": {"accuracy": right}}
        (tmp_path / f"llama-seed-{seed}.json").write_text(json.dumps(record))
    wanted = [
        {"steps": 9, "numbers": numbers, "accuracy": right}
        for numbers, right in (("float32", 0.86), ("bfloat16", 0.84))
    ]
    assert wirings.training_records(tmp_path) == {"llama": wanted}


def test_the_claim_is_tested_on_every_wiring_but_berts(groups):
    claim = wirings.wiring_claim(26, groups)
    wanted = [f"wirings/{name}" for name in TRAININGS if name != "post-ln-first"]
    assert [effect.run for effect in claim.effects[::3]] == wanted and len(claim.effects) == 12
    words = {effect.run: effect.value for effect in claim.effects if effect.protocol.startswith("words only")}
    for name in ("modernbert", "llama"):
        gaps = [
            np.nanmean(
                by_hand(run, "cp-lrp", "word", "no-special") - by_hand(run, "attnlrp", "word", "no-special")
            )
            for run in groups[name]
        ]
        assert words[f"wirings/{name}"].mean == pytest.approx(np.mean(gaps), abs=1e-6)
    for effect in claim.effects:
        places = {"above": "the paper's", "below": "the other"}
        assert effect.side == places.get(side_of_zero(effect.value), "open")
    assert wirings.wiring_claim(26, {}).verdict == "not testable here"


def test_a_sentence_without_these_runs_is_left_out(tmp_path: Path, groups, results: Path):
    empty = Records({}, {}, {}, [], [], str(tmp_path))
    with pytest.raises(MissingRecord):
        findings.CATALOGUE["llama, n"](empty)
    with pytest.raises(MissingRecord):  # GPT-2 has no special tokens here
        findings.CATALOGUE["gpt2, CP-LRP minus AttnLRP, all tokens"](
            Records({}, {}, {}, [], [], str(results))
        )
    with pytest.raises(MissingRecord):
        findings.CATALOGUE["gpt2, CP-LRP minus AttnLRP, all tokens, Spearman"](
            Records({}, {}, {}, [], [], str(results))
        )


def test_effects_after_fewer_steps_are_kept_and_shown(
    groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    causal = {name: groups[name] for name in ("gpt2", "llama")}
    trained = {
        name: [{"steps": 2000, "numbers": "float32", "accuracy": 0.8 + 0.01 * k} for k in range(len(runs))]
        for name, runs in causal.items()
    }
    more = {
        name: [{**row, "steps": 5000, "numbers": "bfloat16"} for row in rows]
        for name, rows in trained.items()
    }
    file = tmp_path / "effects.json"
    file.write_text(json.dumps(wiring_steps.effects_record(causal, trained)))
    record = wiring_steps.load_effects(file)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with pytest.raises(SourceError, match="no results/other.json"):
        wiring_steps.load_effects("results/other.json")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "kept.json").write_bytes(file.read_bytes())
    assert wiring_steps.load_effects("results/kept.json")["effects"] == record["effects"]
    with pytest.raises(SourceError, match="expected a record of effects"):
        wiring_steps.load_effects("results/other.json")
    assert [run["run"] for run in record["runs"]][-1] == "llama-seed-2"
    assert all(run["config"]["weights"] and run["sessions"] for run in record["runs"])
    rows = wiring_steps.steps_rows(groups, more, record)
    assert [row["steps"] for row in rows] == [2000, 5000] * 4
    for before, after in zip(rows[::2], rows[1::2], strict=True):
        assert (before["wiring"], before["reading"]) == (after["wiring"], after["reading"])
        assert before["d"].mean == pytest.approx(after["d"].mean, abs=1e-6)
        assert before["trainings"] == pytest.approx(after["trainings"], abs=1e-6)
    shown = repr(views.wiring_steps_table(rows, caption="Steps"))
    assert "2,000, float32" in shown and "5,000, bfloat16" in shown
    both = wiring_steps.steps_rows(groups, more, record, {**record, "effects": record["effects"][:1]})
    assert [row["steps"] for row in both] == [2000, 2000, 5000] + [2000, 5000] * 3
    assert wiring_steps.steps_rows(groups, more) == []


def test_figures_and_tables_show_every_wiring(groups):
    rows = wirings.effect_rows(groups)
    figure = views.wirings_figure(rows, title="Five wirings")
    paths = views.wiring_paths_figure(groups, title="Paths")
    trained = {"llama": [{"steps": 5000, "accuracy": right} for right in (0.8612, 0.85, 0.8734)]}
    shown = {
        "effects": views.wiring_effects_table(rows, caption="Effects"),
        "outcomes": views.outcomes_table(wirings.outcomes(groups), caption="Outcomes"),
        "wirings": views.wirings_table(groups, trained),
    }
    for told in (figure, paths, *shown.values()):
        assert all(wiring.title in repr(told) for wiring in wirings.WIRINGS.values())
    assert rows[0]["d"].text(2) in figure.alt and "0.850" in repr(shown["wirings"])
    assert "0.861" not in repr(shown["wirings"]) and "0.873" not in repr(shown["wirings"])
    assert "5,000" in repr(shown["wirings"]) and "5,000, " not in repr(shown["wirings"])
    gates = repr(views.gates_table(wirings.gate_rows(groups), caption="Groupings"))
    assert "llama-seed-2" in gates and "1/4, from the right" in gates
    worth = repr(views.worth_table(wirings.worth_rows(groups), caption="Worth"))
    assert "Llama" in worth and "ModernBERT" not in worth  # which has one training
    assert len(figure.axes) == 1 and len([axes for axes in paths.axes if axes.get_visible()]) == 5


RECORDED = sorted((ROOT / "results" / "training" / "wirings").glob("*.json"))


@pytest.mark.parametrize("wiring", list(wirings.WIRINGS))
def test_the_weights_that_are_kept_are_those_of_the_records(wiring: str):
    """The hash of the training, and the one that the run was made with."""
    record = json.loads((ROOT / "results/training/wirings" / f"{wiring}-seed-0.json").read_text())
    run = json.loads((ROOT / "results/wirings" / f"{wiring}-seed-0" / "manifest.json").read_text())
    folder = ROOT / "training" / "wirings" / wiring
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == record["weights"]
    clf = lrp.load_classifier(str(folder))
    assert run["config"]["weights"] == clf.card.fingerprint and clf.labels == ("negative", "positive")
    checked = lrp.check(clf, ["a film of rare grace", "dull and far too long"])
    assert not checked.broken, checked


def test_every_run_has_the_record_of_its_training():
    runs = {path.parent.name for path in (ROOT / "results" / "wirings").glob("*/manifest.json")}
    assert runs == {path.stem for path in RECORDED} and len(runs) == 15
    targets = ROOT / "training" / "wirings" / "targets"
    for path in RECORDED:
        for name, digest in json.loads(path.read_text())["targets"].items():
            assert hashlib.sha256((targets / name).read_bytes()).hexdigest()[:16] == digest


@pytest.fixture(scope="module")
def frontier_rows() -> list[dict[str, Any]]:
    return wiring_frontier(wirings.load_wirings(ROOT / "results" / "wirings"))


def test_the_frontier_of_a_wiring_is_that_of_its_rows(frontier_rows):
    """Mean r, passes and paired differences, from the columns as they are in the files."""
    for name in ("modernbert", "llama"):
        table = pq.read_table(ROOT / "results" / "wirings" / f"{name}-seed-0" / "methods.parquet").to_pylist()
        by_method = {
            method: sorted((row for row in table if row["method"] == method), key=lambda row: row["job"])
            for method in METHODS_OF_FRONTIER
        }
        r = {method: np.array([row["r"][0] for row in rows]) for method, rows in by_method.items()}
        cost = {method: np.mean([sum(row["passes"]) for row in rows]) for method, rows in by_method.items()}
        for row in frontier_rows:
            method = row["method"]
            assert row["r"][name].mean == pytest.approx(np.nanmean(r[method]), abs=1e-6)
            for rival in row["dominated by"][name]:
                difference = r[rival] - r[method]
                difference = difference[~np.isnan(difference)]
                assert cost[rival] <= cost[method]
                assert difference.mean() > 1.5 * difference.std() / np.sqrt(len(difference))
            for rival in set(METHODS_OF_FRONTIER) - {method, *row["dominated by"][name]}:
                difference = r[rival] - r[method]
                difference = difference[~np.isnan(difference)]
                close = difference.mean() < 2.5 * difference.std() / np.sqrt(len(difference))
                assert cost[rival] > cost[method] or close


def test_what_the_chapter_says_of_the_frontiers_holds(frontier_rows):
    by_method = {row["method"]: row for row in frontier_rows}
    assert [row["cost"] for row in frontier_rows] == sorted(row["cost"] for row in frontier_rows)
    for name in wirings.WIRINGS:
        left = [row["method"] for row in frontier_rows if not row["dominated by"][name]]
        assert left == ["mask-gradient", "hybrid:exact=4", "hybrid:exact=8", "loo"]
        for rules in ("attnlrp", "cp-lrp"):
            assert "mask-gradient" in by_method[rules]["dominated by"][name]
        for groups in (4, 8):
            assert "hybrid:exact=8" in by_method[f"mask-gradient:groups={groups}"]["dominated by"][name]
    for row in frontier_rows[:-1]:
        hardest = min(row["r"], key=lambda name: row["r"][name].mean)
        assert hardest == "modernbert"
    gains = {
        name: by_method["hybrid:exact=4"]["r"][name].mean - by_method["mask-gradient"]["r"][name].mean
        for name in wirings.WIRINGS
    }
    assert max(gains, key=lambda name: gains[name]) == "modernbert"
    shown = str(views.wiring_frontier_table(frontier_rows, caption="frontier"))
    assert "5 of 5" in shown and "0 of 5" in shown and "ModernBERT" in shown


def test_the_statistic_of_an_effect_is_the_one_asked_for(groups):
    for row in wirings.effect_rows(groups, statistic="kendall"):
        protocol = replace(wirings.READINGS[row["reading"]], statistic="kendall")
        means = [np.nanmean(run.r("cp-lrp", protocol)) for run in groups[row["wiring"]]]
        assert row["cp-lrp"].mean == pytest.approx(np.mean(means), abs=1e-9)


def test_a_run_without_the_methods_of_the_frontier_is_refused(groups):
    with pytest.raises(InputError, match="without mask-gradient:groups=4"):
        wiring_frontier(groups)

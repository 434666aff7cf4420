"""The words of a run: plain loops over its tables, and what would be silently wrong."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tiny_models import reviews, save

import lrp_companion as lrp
from lrp_companion import show
from lrp_companion.checks import InputError
from lrp_companion.cli import parser
from lrp_companion.lab.commands import WORDS
from lrp_companion.lab.execute import execute
from lrp_companion.lab.folder import read_folder, table_bytes
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.record import Record
from lrp_companion.lab.review_jobs import TextJobs

TEXTS = (
    "The plot is not very quick , but the plot is warm .",
    "A film of rare grace and the actor laughed",
    "the actors laughed and the slow scene was never dull !",
    "no laugh , never one warm scene",
    "a Dull plot and a slow actor",
    "dull",
)
DATA = reviews(TEXTS)
LEAN = {"masks": "none", "curves": False, "removals": ["attention-mask"], "targets": ["logit"]}


def made(clf, data, out: Path, **options) -> TextRun:
    given = {"methods": ["attnlrp", "cp-lrp"], "keep_maps": True, **LEAN, **options}
    execute(TextJobs(clf, data, **given), out, progress=False)
    run = load_run(out)
    assert isinstance(run, TextRun)
    return run


@pytest.fixture(scope="module")
def run(clf, tmp_path_factory) -> TextRun:
    return made(clf, DATA, tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module")
def mixed(clf, tmp_path_factory) -> TextRun:
    """The same, with classes in turn: the random model predicts one for all texts."""
    out = tmp_path_factory.mktemp("mixed")
    made(clf, DATA, out)
    manifest, tables = read_folder(out)
    examples = tables["examples"]
    target, place = pa.array(np.arange(len(TEXTS)) % 2, pa.int8()), examples.column_names.index("target")
    rows = table_bytes(examples.set_column(place, "target", target), manifest["key"])
    (out / "examples.parquet").write_bytes(rows)
    run = load_run(out)
    assert isinstance(run, TextRun)
    return run


def by_plain_loops(run: TextRun, clf, *, scale: bool, target: int | None = None) -> dict[str, dict]:
    """Counts and mean scores, from the stored columns; words are what stands between spaces."""
    seen: dict[str, dict[int, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    count: dict[str, int] = defaultdict(int)
    maps = {(row["job"], row["method"]): row["map"] for row in run.tables["methods"].to_pylist()}
    for row in run.tables["examples"].to_pylist():
        if target is not None and row["target"] != target:
            continue
        text, size = TEXTS[row["job"]], row["tokens"]
        after = np.array(row["after"]).reshape(size + 1, -1)[:, row["target"]]
        scores = {"loo": after[0] - after[1:]}
        scores |= {name: maps[row["job"], name][:size] for name in run.methods}
        places = clf.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        words = text.split(" ")
        for name, values in scores.items():
            sums = [0.0] * len(words)
            for (start, end), value in zip(places, values, strict=True):
                if end > start:
                    sums[text[:start].count(" ")] += value
            below = sum(map(abs, sums)) if scale else 1.0
            for word, value in zip(words, sums, strict=True):
                seen[word.lower()][row["job"]].setdefault(name, []).append(value / below)
        for word in words:
            count[word.lower()] += 1
    out = {}
    for word, texts in seen.items():
        means = {
            name: [sum(of[name]) / len(of[name]) for of in texts.values()] for name in ("loo", *run.methods)
        }
        out[word] = {"count": count[word], "texts": len(texts), "means": means}
    return out


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("predicted", [False, True])
def test_words_by_plain_loops(mixed, clf, scale: bool, predicted: bool, monkeypatch) -> None:
    monkeypatch.setattr("lrp_companion.lab.word_table.FEWEST", 2)
    target = 1 if predicted else None
    table = lrp.word_table(mixed, DATA, clf, least=1, map="absolute-sum" if scale else "raw", target=target)
    plain = by_plain_loops(mixed, clf, scale=scale, target=target)
    assert sorted(table.index) == sorted(plain)
    for word, of in plain.items():
        row = table.loc[word]
        assert (row["count"], row["texts"]) == (of["count"], of["texts"])
        loo = of["means"]["loo"]
        for name, values in of["means"].items():
            assert row[name] == pytest.approx(np.mean(values), abs=1e-9)
            ends = lrp.bootstrap_mean(values)
            np.testing.assert_allclose([row[f"{name} low"], row[f"{name} high"]], [ends.low, ends.high])
            if name != "loo":
                lead = lrp.paired_difference(values, loo)
                found = [row[f"{name} - loo{end}"] for end in ("", " low", " high")]
                np.testing.assert_allclose(found, [lead.mean, lead.low, lead.high], atol=1e-9)
            assert math.isnan(row[f"{name} low"]) == (len(values) < 2)


def test_few_texts_have_no_interval_and_several_trainings_no_table(run, clf) -> None:
    """Of two values a bootstrap gives these two."""
    table = lrp.word_table(run, DATA, clf, least=1)
    few = table["texts"] < 5
    assert few.any() and (table["attnlrp low"].isna() == few).all() and table["attnlrp"].notna().all()
    several = Record("seeds", Path(), {"seed-0": run, "seed-1": run})
    with pytest.raises(InputError, match=r"a record of 2 runs; expected one run.*parts\['seed-0'\]"):
        lrp.word_table(several, DATA, clf)
    assert lrp.word_table(several.parts["seed-1"], DATA, clf, least=1).equals(table)


def test_counts_sum_to_the_words_and_shares_to_one(run, clf) -> None:
    table = lrp.word_table(run, DATA, clf, least=1, cased=True)
    assert table["count"].sum() == sum(len(text.split(" ")) for text in TEXTS)
    assert {"The", "the", "Dull", "dull"} <= {*table.index}
    folded = lrp.word_table(run, DATA, clf, least=1)
    assert folded["count"].sum() == table["count"].sum() and folded.loc["dull", "texts"] == 3
    alone = lrp.word_table(run, DATA, clf, least=1, methods=["cp-lrp"], by="loo", top=3)
    assert [*alone.columns[2::3]] == ["loo", "cp-lrp", "cp-lrp - loo"]
    assert alone["loo"].tolist() == sorted(folded["loo"], reverse=True)[:3]
    first = lrp.word_table(run, DATA, clf)["attnlrp - loo"].tolist()
    assert first == sorted(first, reverse=True)
    none = lrp.word_table(run, DATA, clf, least=len(TEXTS) + 1)
    assert not len(none) and [*none.columns] == [*table.columns]


def test_words_come_from_the_runs_own_texts_and_tokenizer(run, clf, model_folder, tmp_path) -> None:
    """A run keeps no text, so others of the same lengths would give wrong words without a word."""
    other = reviews([*TEXTS[:-1], "warm"])
    with pytest.raises(InputError, match="data with the fingerprint"):
        lrp.word_table(run, other, clf)
    folder = save(tmp_path / "other")
    vocabulary = (folder / "tokenizer.json").read_text().replace('"warm"', '"cold"')
    (folder / "tokenizer.json").write_text(vocabulary)
    with pytest.raises(InputError, match="tokenizer with the fingerprint"):
        lrp.word_table(run, DATA, folder)
    old = {name: of for name, of in run.manifest["config"].items() if name != "tokenizer"}
    unnamed = TextRun(run.name, {**run.manifest, "config": old}, run.tables)  # as the oldest records are
    with pytest.raises(InputError, match="text 0 of .* tokens; expected 15"):
        lrp.word_table(unnamed, DATA, model_folder("roberta"))


def test_a_run_without_maps_or_texts_is_refused(clf, tmp_path) -> None:
    bare = made(clf, DATA, tmp_path / "bare", keep_maps=False)
    with pytest.raises(InputError, match="keeps no maps"):
        lrp.word_table(bare, DATA, clf)
    assert {*lrp.word_table(bare, DATA, clf, methods=[]).columns} == {
        "count", "texts", "loo", "loo low", "loo high",
    }  # fmt: skip
    own = lrp.load_dataset({"text": [*TEXTS]}, title="mine")
    run = made(clf, own, tmp_path / "own", limit=4, seed=1)
    with pytest.raises(InputError, match="no texts"):
        lrp.word_table(run, None, clf)
    table = lrp.word_table(run, own, clf, least=1)
    assert table["count"].sum() == sum(len(TEXTS[k].split(" ")) for k in run.examples)
    with pytest.raises(InputError, match="a run of a classifier"):
        lrp.word_table(object())


def test_the_command_saves_and_shows_them(run, clf, model_folder, tmp_path, capsys, monkeypatch) -> None:
    csv = tmp_path / "texts.csv"
    csv.write_text("text,label\n" + "".join(f'"{text}",{k % 2}\n' for k, text in enumerate(TEXTS)))
    own, folder = lrp.load_dataset(csv), model_folder("bert", layers=3, labels=3)
    made(clf, own, tmp_path / "run")
    for ending in ("csv", "tex"):
        out = tmp_path / f"words.{ending}"
        asked = ["words", str(tmp_path / "run"), str(csv), "--model", str(folder), "--out", str(out)]
        args = parser({"words": WORDS}).parse_args([*asked, "--top", "2"])
        args.carry_out(args)
        shown = capsys.readouterr().out.splitlines()
        assert len(shown) == 5 and shown[0].startswith("TextRun run: n = 6 of texts from file")
        assert "methods attnlrp, cp-lrp; model bert" in shown[0] and "; commit " in shown[0]
    with pytest.raises(InputError, match="one of .csv, .tex"):
        args.carry_out(parser({"words": WORDS}).parse_args([*asked[:-1], str(tmp_path / "words.xls")]))
    table = lrp.word_table(tmp_path / "run", own, folder)
    lines = (tmp_path / "words.csv").read_text().splitlines()
    assert lines[0] == ",".join(["word", *table.columns]) and len(lines) == 1 + len(table)
    assert (tmp_path / "words.tex").read_text().startswith("\\begin{tabular}{llllllll}\n")
    assert repr(lrp.open_record(str(tmp_path / "run"))) == shown[0]
    assert lrp.open_record(str(tmp_path / "run")).r.sizes["text"] == 6


def test_a_word_that_is_a_methods_name_stays_a_word(run, clf) -> None:
    table = lrp.word_table(run, DATA, clf, top=3).rename(index=lambda _: "single")
    table.index = ["single", "rollout", "mixed"]
    drawn = show.dots(table)
    labels = [text.get_text() for text in drawn.axes[0].get_yticklabels()]
    assert labels == ["single", "rollout", "mixed"] and len(drawn.axes) == 5
    assert drawn.axes[-1].get_xlabel() == "mean score in a text, map absolute-sum"
    assert "±" not in show.table(table)._repr_html_()
    rows = show.table(table, columns=["loo"]).cells
    assert rows[0] == (lrp.show.tables.cell(lrp.metrics.Interval(*table.iloc[0, 2:5], 1), 2),)

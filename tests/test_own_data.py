"""Data of one's own: every kind of file, columns and labels of every kind, each as it is written."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lrp_companion.checks import InputError
from lrp_companion.schema import Texts
from lrp_companion.sources import Dataset, load_dataset

TEXTS = ("A film, of rare grace", 'The "plot"\nis slow', "Zürich café 映画", "dull")
NAMES = ("positive", "negative", "neutral", "negative")
COLUMNS = {"text": "review", "label": "verdict"}
KINDS = ("csv", "tsv", "json", "jsonl", "ndjson", "parquet")
GUESSED = ("1", "007", "NA", "null", "nan", "true", "2020-01-01", "1e5", "None", "-", "1.0", "٣")
"""Texts that a reader may take for something else."""


def write(folder: Path, kind: str, labels: tuple = NAMES, *, texts=TEXTS, name="mine") -> Path:
    """The texts with their labels as a file of a kind."""
    file = folder / f"{name}.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"review": texts, "verdict": labels}), file)
    elif kind in ("csv", "tsv"):
        with open(file, "w", encoding="utf-8-sig" if kind == "csv" else "utf-8", newline="") as out:
            writer = csv.writer(out, delimiter={"csv": ",", "tsv": "\t"}[kind])
            writer.writerows([("review", "verdict"), *zip(texts, labels, strict=True)])
    else:
        rows = [{"review": text, "verdict": label} for text, label in zip(texts, labels, strict=True)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        file.write_text(json.dumps(rows, indent=1) if kind == "json" else lines)
    return file


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("labels", "numbers", "names"),
    [
        (NAMES, [2, 0, 1, 0], ("negative", "neutral", "positive")),
        ((2, 0, 1, 0), [2, 0, 1, 0], ()),
        (("positive", None, "negative", None), [1, -1, 0, -1], ("negative", "positive")),
        ((2, None, 1, 0), [2, -1, 1, 0], ()),
    ],
    ids=["names", "numbers", "names, some without", "numbers, some without"],
)
def test_a_file_of_every_kind(tmp_path, kind, labels, numbers, names):
    data = load_dataset(write(tmp_path, kind, labels), **COLUMNS)
    assert data.texts == TEXTS and data.labels.tolist() == numbers and data.label_names == names
    assert (data.name, data.split, data.source) == ("mine", "", "file")
    assert data.describe().startswith("mine from file: 4 texts, fingerprint ")
    capitals = tmp_path / f"A.{kind.upper()}"
    (tmp_path / f"mine.{kind}").rename(capitals)
    assert load_dataset(capitals, **COLUMNS).fingerprint == data.fingerprint
    assert load_dataset(tmp_path, **COLUMNS).fingerprint == data.fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_texts_and_labels_stay_as_they_are_written(tmp_path: Path, kind: str) -> None:
    data = load_dataset(write(tmp_path, kind, GUESSED, texts=GUESSED), **COLUMNS)
    assert data.texts == GUESSED and [data.label_names[k] for k in data.labels] == list(GUESSED)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(alphabet=st.sampled_from("a \"\t\r\n,;1é'#\\"), min_size=1), min_size=1),
    data=st.data(),
)
def test_what_csv_wrote_is_read(tmp_path_factory, texts: list[str], data: Any) -> None:
    """No file of a writer of CSV or TSV gives another text than was written."""
    texts = [text for text in texts if text.strip()] or ["a"]
    kind, quoting = (
        data.draw(st.sampled_from([("csv", ","), ("tsv", "\t")])),
        data.draw(st.sampled_from([0, 1])),
    )
    file = tmp_path_factory.mktemp("written") / f"x.{kind[0]}"
    with open(file, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter=kind[1], quoting=quoting)
        writer.writerows([("text", "y"), *((text, k) for k, text in enumerate(texts))])
    read = load_dataset(file, text="text", label="y")
    assert read.texts == tuple(texts) and read.labels.tolist() == list(range(len(texts)))


def test_tables_in_memory() -> None:
    columns = {"review": list(TEXTS), "verdict": [2.0, float("nan"), 1.0, 0.0]}
    named = datasets.Dataset.from_dict({"review": list(TEXTS), "verdict": [1, 0, -1, 0]}).cast_column(
        "verdict", datasets.ClassLabel(names=["bad", "good"])
    )
    assert load_dataset(columns, **COLUMNS).labels.tolist() == [2, -1, 1, 0]
    frame = pandas.DataFrame(columns)
    assert load_dataset(frame, **COLUMNS).fingerprint == load_dataset(columns, **COLUMNS).fingerprint
    nullable = frame.convert_dtypes()
    assert load_dataset(nullable, **COLUMNS).fingerprint == load_dataset(columns, **COLUMNS).fingerprint
    with pytest.raises(ValueError, match="more than once"):
        load_dataset(pandas.concat([frame, frame], axis=1), **COLUMNS)
    data = load_dataset(named, **COLUMNS, title="from the hub")
    assert (data.name, data.source, data.label_names) == ("from the hub", "memory", ("bad", "good"))
    assert data.labels.tolist() == [1, 0, -1, 0]
    assert len(load_dataset(datasets.DatasetDict({"test": named})["test"], **COLUMNS)) == 4


def test_folders_and_their_splits(tmp_path: Path) -> None:
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test"):
        write(tmp_path, "parquet", name=name)
    assert len(load_dataset(tmp_path, split="train", **COLUMNS)) == 8
    assert load_dataset(tmp_path, split="test", **COLUMNS).split == "test"
    for split in (None, "dev"):
        with pytest.raises(InputError, match="expected one of test, train"):
            load_dataset(tmp_path, split=split, **COLUMNS)
    with pytest.raises(FileNotFoundError):
        load_dataset("no/where", text="review")


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("x.csv", "review,verdict\nGood,1\n", {}, "no column None; expected one of the columns review, ver"),
    ("x.csv", "review,verdict\nGood,1\n", {"text": "revue"}, "no column 'revue'"),
    ("x.csv", "review,verdict\nGood,1\n ,0\n", {"text": "review"}, "row 1 (from 0) of"),
    ("x.csv", "review\n", {"text": "review"}, "without rows"),
    ("x.csv", "review,verdict\nGood,1\n", {"text": "review", "split": "train"}, "no split 'train'"),
    ("x.csv", "review,verdict\nGood,1\n", {"text": "review", "source": "hub"}, "source='hub'"),
    ("x.csv", "a,a\nGood,1\n", {"text": "a"}, "more than once"),
    ("x.csv", "review,verdict\nA,tab,1\n", COLUMNS, "zip"),
    ("x.csv", "review,verdict\nA,1\nB\n", COLUMNS, "zip"),
    ("x.csv", 'review,verdict\n"Fine" he said,1\n', COLUMNS, "expected after"),
    ("x.tsv", 'review\tverdict\n"a start\t1\n', COLUMNS, "unexpected end"),
    ("x.jsonl", '{"review": "a"}\n{"review": 2}\n', {"text": "review"}, "row 1 (from 0)"),
]


@pytest.mark.parametrize(("file", "content", "asked", "words"), REFUSED)
def test_rows_that_would_be_shifted_or_empty_are_refused(tmp_path, file, content, asked, words):
    (tmp_path / file).write_text(content)
    with pytest.raises(Exception, match=re.escape(words)):
        load_dataset(tmp_path / file, **asked)


def test_pairs_and_columns_of_the_usual_names(tmp_path: Path) -> None:
    pairs = load_dataset(write(tmp_path, "csv"), text="review", pair="verdict")
    assert pairs.inputs == list(zip(TEXTS, NAMES, strict=True)) and "4 pairs" in pairs.describe()
    assert pairs.take(2, seed=1).inputs == [pairs.inputs[int(k)] for k in pairs.take(2, seed=1).ids]
    assert isinstance(pairs.take(2).texts[:1], Texts)
    for name, other in (("text", "sentence"), ("sentence", "note")):
        (tmp_path / "x.csv").write_text(f"id,{other},{name},label\n1,no,Good,1\n2,no,Bad,0\n")
        assert load_dataset(tmp_path / "x.csv").texts == ("Good", "Bad")
        assert load_dataset(tmp_path / "x.csv").labels.tolist() == [1, 0]
        assert load_dataset(tmp_path / "x.csv", label="", text=other).labels.tolist() == [-1, -1]


def labelled(labels: list[int], names: tuple[str, ...] = ()) -> Dataset:
    count = len(labels)
    ids = tuple(map(str, range(count)))
    return Dataset("mine", "", "file", ids, np.array(labels), texts=("x",) * count, label_names=names)


@pytest.mark.parametrize(
    ("labels", "names", "classes", "expected"),
    [
        ([1, -1, 0], ("neg", "pos"), ("pos", "neg"), [0, -1, 1]),
        ([1, 0], ("Neg", "Pos"), ("neg", "pos"), [1, 0]),
        ([2, -1, 0], (), ("a", "b", "c"), [2, -1, 0]),
        ([5, 1], (), ("1", "2", "3", "4", "5"), [4, 0]),
        ([0, 1], ("A", "a"), ("a", "A"), [1, 0]),
        ([2, 0], (), ("a", "b"), None),
        ([0], ("good",), ("LABEL_0", "LABEL_1"), None),
        ([0, 1], ("a", "b"), ("a", "a", "b"), None),
        ([1, 0], (), ("a", "a"), [1, 0]),
        ([1, 2], (), ("1", "2", "other"), [0, 1]),
        ([0, 1], (), ("1", "other"), None),
        ([1, 2], (), ("negative", "positive"), None),
        ([1, 2], (), ("1", "2.0"), [0, 1]),
        ([1, 2], (), ("01", "2"), None),
        ([0, 1, 2], ("-1", "0", "1"), ("-1", "0", "1"), [0, 1, 2]),
        ([0, 1, 2], ("-1", "0", "1"), ("negative", "positive"), None),
        ([0, 1], ("False", "True"), ("negative", "positive"), None),
        ([0, 1], ("False", "True"), ("true", "false"), [1, 0]),
        ([0, 1], ("01", "1"), ("1", "01"), [1, 0]),
        ([0, 1], ("01", "1"), ("neg", "1"), None),
        ([0, 1], ("Pos", "pos"), ("pos", "neg"), None),
        ([0, 1], ("1", "1.0"), ("0", "1"), None),
        ([0, 1], ("3", "٣"), ("3", "4"), None),
    ],
)
def test_labels_become_the_models_classes(labels, names, classes, expected):
    """And no two labels become one class."""
    if expected is None:
        with pytest.raises(InputError, match="rename the labels"):
            labelled(labels, names).for_classes(classes)
    else:
        assert labelled(labels, names).for_classes(classes).labels.tolist() == expected


def table(**columns: list) -> Dataset:
    return load_dataset({"text": ["x"] * len(columns["y"]), **columns}, text="text", label="y")


@pytest.mark.parametrize(
    ("given", "labels", "names"),
    [
        ([-1, 1, -1], [0, 1, 0], ("-1", "1")),
        ([1.0, -1.0, float("nan")], [1, 0, -1], ("-1", "1")),
        ([2, 10, -3], [1, 2, 0], ("-3", "2", "10")),
        ([0, 4], [0, 4], ()),
        ([True, False], [1, 0], ("False", "True")),
        ([2**63, 2**63 + 1, None], [0, 1, -1], (str(2**63), str(2**63 + 1))),
        (["01", "1", "001"], [1, 2, 0], ("001", "01", "1")),
        (["3", "٣", "３"], [0, 1, 2], ("3", "٣", "３")),
        (["1", "1.0"], [0, 1], ("1", "1.0")),
        ([1, "pos", None], [0, 1, -1], ("1", "pos")),
        ([[1], 2], [1, 0], ("2", "[1]")),
        (torch.tensor([0, 1, 1]), [0, 1, 1], ()),
        (torch.tensor([2.0, float("nan"), 0.0], requires_grad=True), [2, -1, 0], ()),
        ([torch.tensor(1), torch.tensor(0), None], [1, 0, -1], ()),
        (np.ma.array([1, 0, 2], mask=[0, 1, 0]), [1, -1, 2], ()),
    ],
)
def test_labels_are_kept_as_they_are(given: Any, labels: list[int], names: tuple[str, ...]) -> None:
    data = table(y=given)
    assert data.labels.tolist() == labels and data.label_names == names


@pytest.mark.parametrize(
    ("labels", "names", "classes"),
    [
        ([1, 2, 3], (), ("a", "b", "c")),
        ([0, 1, 2], (), ("1", "2", "other")),
        ([0, 1, 2], (), ("1", "other")),
        ([0, 1], ("1", "pos"), ("neg", "positive")),
        ([0, 1, 2], ("-1", "0", "1"), ("negative", "positive")),
    ],
)
def test_a_sample_never_reads_labels_as_other_classes_than_all_data(labels, names, classes):
    whole = labelled(labels, names)
    parts = [whole.take(1, seed=seed) for seed in range(8)]
    for part in (whole, *parts, whole.take(2).take(1)):
        with pytest.raises(InputError, match="rename the labels"):
            part.for_classes(classes)


def test_a_sample_of_ratings_is_read_as_all_data_are() -> None:
    ratings, classes = labelled([1, 5, 3, -1]), ("1", "2", "3", "4", "5")
    expected = ratings.for_classes(classes).labels
    for seed in range(8):
        sample = ratings.take(1, seed=seed)
        assert sample.for_classes(classes).labels == expected[int(sample.ids[0])]

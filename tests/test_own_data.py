"""Data of one's own: every kind of file, columns and labels of every kind, and one line for what is none."""

from __future__ import annotations

import csv
import json
import pickle
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from lrp_companion.checks import CompanionError, InputError, SourceError
from lrp_companion.schema import Texts
from lrp_companion.sources import Dataset, load_dataset

TEXTS = ("A film, of rare grace", 'The "plot"\nis slow', "Zürich café 映画", "dull")
NAMES = ("positive", "negative", "neutral", "negative")
COLUMNS = {"text": "review", "label": "verdict"}


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def write(folder: Path, kind: str, labels: tuple = NAMES, *, name: str = "mine") -> Path:
    """The texts with their labels as a file of a kind."""
    file = folder / f"{name}.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"review": TEXTS, "verdict": labels}), file)
    elif kind == "jsonl":
        rows = [{"review": text, "verdict": label} for text, label in zip(TEXTS, labels, strict=True)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        between = {"csv": ",", "tsv": "\t"}[kind]
        cells = [("review", "verdict"), *zip(TEXTS, labels, strict=True)]
        lines = [between.join(quoted("" if x is None else str(x)) for x in row) for row in cells]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8-sig" if kind == "csv" else "utf-8")
    return file


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
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


def test_unlabelled_texts_and_pairs(tmp_path: Path) -> None:
    file = write(tmp_path, "csv")
    plain, pairs = load_dataset(str(file), text="review"), load_dataset(file, text="review", pair="verdict")
    assert set(plain.labels.tolist()) == {-1} and plain.inputs == list(TEXTS)
    assert pairs.inputs == list(zip(TEXTS, NAMES, strict=True)) and "4 pairs" in pairs.describe()
    assert pairs.take(2, seed=1).inputs == [pairs.inputs[int(k)] for k in pairs.take(2, seed=1).ids]
    assert len({plain.fingerprint, pairs.fingerprint, load_dataset(file, **COLUMNS).fingerprint}) == 3


def frame(columns: dict[str, list]) -> Any:
    """What pandas gives, as far as it is asked: columns by position, to_dict."""

    class Column(list):
        def tolist(self) -> list:
            return list(self)

    class Places:
        def __getitem__(self, at: tuple) -> Column:
            return Column(list(columns.values())[at[1]])

    return type("DataFrame", (), {"columns": list(columns), "iloc": Places(), "to_dict": lambda _: columns})()


def test_tables_in_memory() -> None:
    columns = {"review": list(TEXTS), "verdict": [2.0, float("nan"), 1.0, 0.0]}
    named = datasets.Dataset.from_dict({"review": list(TEXTS), "verdict": [1, 0, -1, 0]}).cast_column(
        "verdict", datasets.ClassLabel(names=["bad", "good"])
    )
    assert load_dataset(columns, **COLUMNS).labels.tolist() == [2, -1, 1, 0]
    assert load_dataset(frame(columns), **COLUMNS).fingerprint == load_dataset(columns, **COLUMNS).fingerprint
    data = load_dataset(named, **COLUMNS, title="from the hub")
    assert (data.name, data.source, data.label_names) == ("from the hub", "memory", ("bad", "good"))
    assert data.labels.tolist() == [1, 0, -1, 0]
    several = datasets.DatasetDict({"train": named, "test": named.select([0])})
    assert len(load_dataset(several, split="test", **COLUMNS)) == 1


def test_folders_and_their_splits(tmp_path: Path) -> None:
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test"):
        write(tmp_path, "parquet", name=name)
    assert len(load_dataset(tmp_path, split="train", **COLUMNS)) == 8
    assert load_dataset(tmp_path, split="test", **COLUMNS).split == "test"
    for split in (None, "dev"):
        with pytest.raises(InputError, match="expected one of test, train"):
            load_dataset(tmp_path, split=split, **COLUMNS)
    saved = tmp_path / "saved"
    datasets.Dataset.from_dict({"review": list(TEXTS), "verdict": list(NAMES)}).save_to_disk(str(saved))
    assert load_dataset(saved, **COLUMNS).texts == TEXTS


@pytest.mark.parametrize(
    ("file", "content", "asked", "words"),
    [
        (
            "x.csv",
            "review,verdict\nGood,1\n",
            {},
            "no column for the texts; expected a column of review, verd",
        ),
        ("x.csv", "review,verdict\nGood,1\n", {"text": "revue"}, "column 'revue' as text"),
        ("x.csv", "a,a\nGood,1\n", {"text": "a"}, "more than once"),
        ("x.csv", "review,verdict\nGood,1\n ,0\n", {"text": "review"}, "row 1 (from 0) of"),
        ("x.csv", "review\n", {"text": "review"}, "without rows"),
        ("x.csv", "", {"text": "review"}, "cannot be read"),
        ("x.tsv", "review\tverdict\nGood\n", COLUMNS, "line 2 has 1 cells, the first 2"),
        ("x.tsv", "review\tverdict\nA\ttab\t1\n", COLUMNS, "line 2 has 3 cells, the first 2"),
        ("x.tsv", "", {"text": "review"}, "it is empty"),
        ("x.tsv", 'review\n"One line\nand another"\n', {"text": "review"}, "quotes may be text"),
        ("x.tsv", 'review\tverdict\n"Slow, and dull"\t0\nFine\t1\n', COLUMNS, "a spreadsheet's"),
        ("x.csv", "review,verdict\nGood\n", COLUMNS, "cannot be read"),
        ("x.jsonl", "{", {"text": "review"}, "cannot be read"),
        ("x.jsonl", '{"review": 7}\n', {"text": "review"}, "is a int"),
        ("x.parquet", "no parquet", {"text": "review"}, "cannot be read"),
        ("x.xlsx", "rows", {"text": "review"}, "a .csv, .tsv, .jsonl or .parquet file"),
        ("x.csv", "review,verdict\nGood,1\n", {"text": "review", "split": "test"}, "no split: it has none"),
        ("x.csv", "review,verdict\nGood,1\n", {"text": "review", "source": "hub"}, "with own data"),
        ("x.csv", "review,verdict\nGood,1\n", {"text": "review", "limit": 2}, "limit 2"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, file, content, asked, words):
    (tmp_path / file).write_text(content)
    with pytest.raises(CompanionError) as caught:
        load_dataset(tmp_path / file, **asked)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nowhere.csv", "no/where", Path("nowhere")])
def test_nothing_there(name: str | Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        load_dataset(name, text="review")
    with pytest.raises(InputError, match="name 'sst3'; expected one of sst2, imdb, mnist, or the path"):
        load_dataset("sst3")
    with pytest.raises(InputError, match="text 'review' with sst2"):
        load_dataset("sst2", text="review")
    with pytest.raises(InputError, match="data of type int"):
        load_dataset(7, text="review")


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
        ([2, 1], (), ("A", "a", "b"), [2, 1]),
        ([0, 1], ("A", "a"), ("a", "A"), [1, 0]),
        ([2, 0], (), ("a", "b"), None),
        ([0], ("good",), ("LABEL_0", "LABEL_1"), None),
        ([0], ("Aa",), ("aa", "AA"), None),
        ([0, 1], ("a", "b"), ("a", "a", "b"), None),
        ([1, 0], (), ("a", "a"), [1, 0]),
        ([1, 2], (), ("1", "2", "other"), [0, 1]),
        ([0, 1], (), ("other", "1"), [0, 1]),
        ([0, 1], (), ("1", "other"), None),
        ([1, 2], (), ("negative", "positive"), None),
        ([4, 0], (), ("negative", "positive"), None),
        ([1, 2], (), ("01", "2.0"), [0, 1]),
        ([1, 0, -1], ("-1", "1"), ("positive", "negative"), [0, 1, -1]),
        ([1, 1], ("-1", "1"), ("positive", "negative"), [0, 0]),
        ([0, 1, 2], ("-1", "0", "1"), ("Pos", "Neutral", "Neg"), [2, 1, 0]),
        ([0, 1, 2], ("-1", "0", "1"), ("-1", "0", "1"), [0, 1, 2]),
        ([0, 1, 2], ("-1", "0", "1"), ("negative", "positive"), None),
        ([0, 1], ("-1", "1"), ("LABEL_0", "LABEL_1"), None),
        ([0], ("-1",), ("negative", "positive"), None),
        ([0, 1], ("False", "True"), ("negative", "positive"), None),
        ([0, 1], ("False", "True"), ("true", "false"), [1, 0]),
    ],
)
def test_labels_become_the_models_classes(labels, names, classes, expected):
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
        (["1", "-1", None, " "], [1, 0, -1, -1], ("-1", "1")),
        ([1.0, -1.0, float("nan")], [1, 0, -1], ("-1", "1")),
        ([2, 10, -3], [1, 2, 0], ("-3", "2", "10")),
        (["1.0", "0.0", ""], [1, 0, -1], ()),
        ([0, 4], [0, 4], ()),
        ([True, False], [1, 0], ("False", "True")),
        ([2**63, 0], [1, 0], ("0", str(2**63))),
        ([-1, 2**64], [0, 1], ("-1", str(2**64))),
        ([str(2**63), "1"], [1, 0], ("1", str(2**63))),
        ([1e300, 1.0], [1, 0], ("1", str(int(1e300)))),
    ],
)
def test_only_a_missing_label_is_none(given: list, labels: list[int], names: tuple[str, ...]) -> None:
    data = table(y=given)
    assert data.labels.tolist() == labels and data.label_names == names


def test_a_label_that_may_be_two_classes_names_both() -> None:
    with pytest.raises(InputError, match=r"may be class 0 \('a'\), 2 \('a'\)"):
        labelled([0], ("a",)).for_classes(("a", "b", "a"))


def test_the_time_of_many_labels_grows_with_their_number() -> None:
    """30,000 names, each compared with each, would take minutes."""
    names = [f"label {k}" for k in range(30_000)]
    data = table(y=[names[k % 30_000] for k in range(60_000)])
    assert data.for_classes(names[::-1]).labels[:2].tolist() == [29_999, 29_998]


QUOTES = (
    "plain",
    '"Fine", he said',
    'he said "no',
    '"a start',
    'an end"',
    '"all of it"',
    '"a, b"',
    '""twice""',
    "it's",
    '" "',
    'one "two" three',
    '"',
    '""',
    'café "映画"',
)


@pytest.mark.parametrize("between", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_quotes_in_a_tsv_file_are_text(tmp_path: Path, between: str, encoding: str) -> None:
    file = tmp_path / "x.tsv"
    for texts in (
        QUOTES,
        *zip(QUOTES[:-1], QUOTES[1:], strict=True),
        *((text, "plain") for text in QUOTES[:6]),
    ):
        lines = ["text\ty", *(f"{text}\t{'' if k else 1}" for k, text in enumerate(texts))]
        file.write_bytes("".join(line + between for line in lines).encode(encoding))
        data = load_dataset(file, text="text", label="y")
        assert data.texts == texts and data.labels.tolist() == [1, *[-1] * (len(texts) - 1)]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("between", ["\n", "\r\n"])
def test_a_tsv_file_that_a_writer_quoted_is_read_as_quoted(tmp_path, quoting, between):
    file = tmp_path / "x.tsv"
    some = (*QUOTES[:-3], QUOTES[-1], "two\nlines", "a\ttab", 'a "line\n end"', "a return\rin it")
    for texts in (some, *zip(some[:-1], some[1:], strict=True), *((text,) for text in some)):
        with open(file, "w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, delimiter="\t", quoting=quoting, lineterminator=between)
            writer.writerows([("text", "y"), *((text, k) for k, text in enumerate(texts))])
        data = load_dataset(file, text="text", label="y")
        assert data.texts == texts and data.labels.tolist() == list(range(len(texts)))


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("text", ["1.\tgood\n2. bad", 'a\t"b"\nc', "a, b\tc\nd\te\nf"])
def test_a_quoted_text_with_tabs_and_as_many_line_ends_is_one_text(tmp_path, quoting, text):
    file = tmp_path / "x.tsv"
    rows = [("id", "text", "y"), (1, text.replace("\n", "\t\n"), 1), (2, "fine", 0)]
    for table in (rows, [row[1:] for row in [rows[0], (1, text, 1), rows[2]]]):
        with open(file, "w", encoding="utf-8", newline="") as out:
            csv.writer(out, delimiter="\t", quoting=quoting, lineterminator="\n").writerows(table)
        data = load_dataset(file, text="text", label="y")
        assert data.texts == (table[1][-2], "fine") and data.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        ('"a start\t1\nan end"\t0', ('"a start', 'an end"')),
        ('"a start\tpos\nan end"\tneg\nx\tpos', ('"a start', 'an end"', "x")),
        ('"a start\t\nan end"\t0.5', ('"a start', 'an end"')),
        ('"a start\tgood\nan end"\tbad\nhe said "no"\tfair', ('"a start', 'an end"', 'he said "no"')),
        ('"a start\tgood\nan end"\tbad', None),
        ('"a start\tgood\nan end"\t', None),
    ],
)
def test_lines_that_two_quotes_seem_to_join(tmp_path: Path, lines: str, texts: tuple | None) -> None:
    (tmp_path / "x.tsv").write_text(f"text\ty\n{lines}\n")
    if texts is None:
        with pytest.raises(
            SourceError, match="its quotes may be text, or around texts with tabs and line ends"
        ):
            load_dataset(tmp_path / "x.tsv", text="text")
    else:
        assert load_dataset(tmp_path / "x.tsv", text="text").texts == texts


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_mark_at_the_start_of_a_file_is_no_part_of_a_name(tmp_path: Path, kind: str, encoding: str) -> None:
    file = write(tmp_path, kind)
    content = file.read_bytes().decode("utf-8-sig").replace("\n", "\r\n" if kind == "jsonl" else "\n")
    file.write_bytes(content.encode(encoding))
    data = load_dataset(file, **COLUMNS)
    assert data.texts == TEXTS and data.label_names == ("negative", "neutral", "positive")


def json_lines(folder: Path, *labels: str, name: str = "x.jsonl") -> Path:
    file = folder / name
    file.write_text("".join(f'{{"text": "t{k}", "y": {label}}}\n' for k, label in enumerate(labels)))
    return file


@pytest.mark.parametrize(
    ("labels", "numbers", "names"),
    [
        (("123456789012345678901", "123456789012345678902"), [0, 1], None),
        (
            ("9007199254740993", "0.5", "9007199254740992"),
            [2, 0, 1],
            ("0.5", "9007199254740992", "9007199254740993"),
        ),
        (("9007199254740993.0", "9007199254740992.0"), [1, 0], ("9007199254740992", "9007199254740993")),
        (("9007199254740993", "null", "9007199254740992"), [1, -1, 0], None),
        (('"2020-01-01"', '"2021-01-01T00:00:00"'), [0, 1], ("2020-01-01", "2021-01-01T00:00:00")),
        (("1", '"pos"', "null"), [0, 1, -1], ("1", "pos")),
        (("true", "false"), [1, 0], ("False", "True")),
        (("1.0", "0", "NaN"), [1, 0, -1], ()),
    ],
)
def test_labels_of_json_lines_are_kept_as_they_are(tmp_path, labels, numbers, names):
    data = load_dataset(json_lines(tmp_path, *labels), text="text", label="y")
    expected = tuple(sorted(set(labels) - {"null"})) if names is None else names
    assert data.labels.tolist() == numbers and data.label_names == expected


def test_json_lines_with_anything_in_columns_that_nobody_asks_for(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    for other in (["1", '"x2"'], ["[1]", "2"], ['{"a": 1}', '{"a": "b"}'], ["[1, [2]]", '"2020-01-01"']):
        lines = [f'{{"text": "2020-0{k + 1}-01", "other": {value}}}\n' for k, value in enumerate(other)]
        file.write_text("\n".join([*lines, '{"text": "last"}']))
        assert load_dataset(file, text="text").texts == ("2020-01-01", "2020-02-01", "last")


@pytest.mark.parametrize("line", ["[1]", '"text"', '{"text": "a", "text": "b"}', "[" * 100_000, "9" * 5000])
def test_json_lines_that_are_no_rows_are_one_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "x.jsonl").write_text(f'{{"text": "a"}}\n{line}\n')
    with pytest.raises(SourceError, match="which cannot be read"):
        load_dataset(tmp_path / "x.jsonl", text="text")


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
    parts = [whole.take(1, seed=seed) for seed in range(8)] + [whole.where(label=k) for k in labels]
    for part in (whole, *parts, whole.take(2).take(1), whole.longest(1)):
        with pytest.raises(InputError, match="rename the labels"):
            part.for_classes(classes)


def test_a_sample_of_ratings_and_of_names_is_read_as_all_data_are() -> None:
    ratings, classes = labelled([1, 5, 3, -1]), ("1", "2", "3", "4", "5")
    for k, expected in enumerate(ratings.for_classes(classes).labels.tolist()):
        assert ratings.where(label=ratings.labels[k]).for_classes(classes).labels.tolist() == [expected]
    some = labelled([0, 1, 2], ("neg", "other", "pos")).where(label=2).for_classes(("neg", "pos"))
    assert some.labels.tolist() == [1] and some.for_classes(("pos", "neg")).labels.tolist() == [0]


@pytest.mark.parametrize("name", ["A.CSV", "a.Tsv", "A.JSONL", "a.ndjson", "a.NDJSON", "A.PARQUET"])
def test_an_ending_in_capitals(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = name.lower().rpartition(".")[2].replace("ndjson", "jsonl")
    write(tmp_path, kind).rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for place in (name, tmp_path / name, tmp_path):
        assert load_dataset(place, **COLUMNS).texts == TEXTS


@pytest.mark.parametrize(
    ("labels", "numbers", "names"),
    [
        (torch.tensor([0, 1, 1]), [0, 1, 1], ()),
        (torch.tensor([-1, 1, 1]), [0, 1, 1], ("-1", "1")),
        (torch.tensor([2.0, float("nan"), 0.0], requires_grad=True), [2, -1, 0], ()),
        ([torch.tensor(1), torch.tensor(0), None], [1, 0, -1], ()),
        (np.ma.array([1, 0, 2]), [1, 0, 2], ()),
        (np.array(["b", "a", "b"]), [1, 0, 1], ("a", "b")),
    ],
)
def test_labels_as_arrays_and_tensors(labels: Any, numbers: list[int], names: tuple[str, ...]) -> None:
    data = load_dataset({"text": ["a", "b", "c"], "y": labels}, text="text", label="y")
    assert data.labels.tolist() == numbers and data.label_names == names


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.ma.array([1, 0, 2], mask=[0, 1, 0]), r"column 'y' with masked entries \(1\)"),
        (np.ma.masked_all(3), r"masked entries \(3\)"),
        ([1, np.ma.masked, 0], r"masked entries \(1\)"),
        (torch.zeros(3, 2), r"column 'y' of shape \(3, 2\)"),
        (np.array(1), r"of shape \(\)"),
    ],
)
def test_columns_without_one_value_per_row(labels: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_dataset({"text": ["a", "b", "c"], "y": labels}, text="text", label="y")


def test_streamed_data_are_refused_with_the_way_to_read_them() -> None:
    rows = datasets.Dataset.from_dict({"text": ["a", "b"], "y": [0, 1]})
    streamed = rows.to_iterable_dataset()
    for data in (streamed, streamed.take(1), datasets.IterableDatasetDict({"train": streamed})):
        with pytest.raises(InputError, match="streamed data .*from_list"):
            load_dataset(data, text="text", label="y")
    assert load_dataset(datasets.Dataset.from_list(list(streamed.take(1))), text="text").texts == ("a",)


def test_parts_and_sums_of_texts_are_texts() -> None:
    data = table(y=[1, 0, 1])
    texts = data.texts
    for some in (texts[:2], texts + ("y",), ("y", *texts[:1]) + texts[:1], texts[:1] * 2, 2 * texts[:1]):
        assert isinstance(some, Texts) and isinstance(some[0], str)
    again = pickle.loads(pickle.dumps(texts))
    assert again == texts == ("x", "x", "x") and hash(again) == hash(("x",) * 3) and isinstance(again, Texts)
    assert isinstance(data.take(2).texts, Texts) and repr(texts[:1]) == "('x',)"

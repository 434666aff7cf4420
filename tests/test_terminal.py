"""How commands end and what they print: exit codes, one line, nothing that steers a terminal."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lrp_companion import terminal
from lrp_companion.checks import InputError
from lrp_companion.cli import main

ROOT = Path(__file__).resolve().parent.parent
TEXT = {"got": "this", "expected": "that", "hint": "do it"}


def raises(error: BaseException):
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("op", **TEXT), 2, "op: got this; expected that. Next step: do it."),
        (terminal.Fault("op", **TEXT), 3, "op: got this"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 1, ""),
        (ZeroDivisionError("one\ntwo"), 3, "stopped by ZeroDivisionError: one two; "),
        (MemoryError(), 3, "by MemoryError;"),
    ],
)
def test_every_end_has_its_exit_code_and_at_most_one_line(error, code, words, capsys) -> None:
    assert terminal.ended(raises(error)) == code
    said = capsys.readouterr().err
    assert words in said and len(said.splitlines()) == bool(words)


def test_sigterm_is_ctrl_c_and_its_handler_is_put_back(capsys) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert terminal.ended(lambda: os.kill(os.getpid(), signal.SIGTERM)) == 130
    assert signal.getsignal(signal.SIGTERM) is before and "interrupted" in capsys.readouterr().err


HOSTILE = "\x1b]0;title\x07 \x9b2J \x1b[31mred \r\b\x00 \u202eback \u2028line\x7f"


def test_nothing_that_is_printed_steers_a_terminal(capsys) -> None:
    for shown in (terminal.visible(HOSTILE), terminal.printable(HOSTILE)):
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028" for c in shown)
    terminal.complain(HOSTILE)
    assert capsys.readouterr().err.strip().isprintable()
    text = terminal.harmless_json(json.dumps({"a": HOSTILE}, ensure_ascii=False))
    assert json.loads(text) == {"a": HOSTILE} and "\x9b" not in text and "\x7f" not in text


def test_labels_and_manifests_do_not_steer_a_terminal(tmp_path, model_folder, capsys) -> None:
    from tiny_models import build

    model, tokenizer = build("bert")
    model.config.id2label = {0: "\x1b[2Jnegative", 1: "\x1b[2Jpositive\x9b1m"}
    model.config.label2id = {name: k for k, name in model.config.id2label.items()}
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    call = ["--model", str(tmp_path / "model")]
    assert main(["explain", "a film", *call]) == 0
    assert main(["explain", "a film", *call, "--json"]) == 0
    run = ["run", "sst2", "--source", "embedded", "--limit", "2", "--methods", "loo,attnlrp", "--quiet"]
    assert main([*run, *call, "--out", str(tmp_path / "run")]) == 0
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    manifest["data"] = "\x1b[2J" + manifest["data"]
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    assert main(["report", str(tmp_path / "run")]) == 0
    assert main(["explain", "a film", "--model", "./no\x1b[2J"]) == 2
    said = "".join(capsys.readouterr())
    at = [repr(said[max(0, k - 200) : k + 30]) for k, c in enumerate(said) if c in "\x1b\x9b"]
    assert not at and "\\x1b[2Jnegative" in said


def command(*arguments: str, shell: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command with its streams redirected as a shell does."""
    call = " ".join([f"exec '{sys.executable}' -m lrp_companion", *arguments, shell])
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        ["sh", "-c", call], env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_an_output_that_is_full_is_one_line_and_exit_code_3() -> None:
    done = command("sources", shell="> /dev/full")
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_an_output_that_is_closed_is_one_line_and_exit_code_3() -> None:
    done = command("sources", shell=">&-")
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1
    done = command("explode", shell="2>&-")
    assert done.returncode == 2 and done.stdout == ""


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_an_output_of_ascii_gets_ascii(model_folder) -> None:
    call = ("explain", "'a film of rare grace \u00fc'", "--model", f"'{model_folder('bert')}'")
    done = command(*call, shell="", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and done.stderr == "" and done.stdout.isascii()
    assert "#" in done.stdout and "|" in done.stdout


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a film\n", "a film"),
        (b"a film\r\n", "a film"),
        (b"a film", "a film"),
        (b"\xef\xbb\xbfa film\n", "a film"),
        (b" one\r\ntwo \n\n", " one\ntwo \n"),
    ],
)
def test_standard_input_is_the_text_without_what_a_shell_adds(raw: bytes, text: str, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
    assert terminal.standard_input() == text

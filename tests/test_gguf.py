"""A language model in one .gguf file: read as the network it was made from, or refused in one line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lrp_companion as lrp
from lrp_companion.checks import CompanionError, SourceError

gguf: Any = pytest.importorskip("gguf")
LAYERS, WIDTH, HEADS, INNER = 2, 32, 4, 64
TOKENS = ["<|endoftext|>", "<s>", "</s>", *"abcdefgh", "Ġ", "Ġa", "Ġb"]


def written(path: Path, *, kind: str = "llama") -> Path:
    """A random model of this kind, in float32."""
    draw = np.random.default_rng(0).normal
    writer = gguf.GGUFWriter(path, kind)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3] + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["Ġ a", "Ġ b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    shapes = {"token_embd": (len(TOKENS), WIDTH), "output": (len(TOKENS), WIDTH), "output_norm": (WIDTH,)}
    for k in range(LAYERS):
        square = {f"blk.{k}.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
        shapes |= square | {f"blk.{k}.{name}_norm": (WIDTH,) for name in ("attn", "ffn")}
        shapes |= {f"blk.{k}.ffn_{name}": (INNER, WIDTH) for name in ("gate", "up")}
        shapes[f"blk.{k}.ffn_down"] = (WIDTH, INNER)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", (draw(size=shape) / 4).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_and_its_folder_are_one_model(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    path = written(tmp_path / "tiny.gguf")
    clf, same = lrp.load_classifier(path), lrp.load_classifier(tmp_path)
    assert capfd.readouterr().err == ""
    assert clf.card.fingerprint == same.card.fingerprint and clf.card.name == "tiny"
    assert clf.card.stored == "F32" and "unpacked from F32" in str(clf.card)
    (record,) = lrp.attribute(clf, "ab a", method="attnlrp", target=" a", contrast=" b", epsilon=1e-9)
    assert record.tokens[-1] == " a" and record.details["label"] == " a"
    assert np.isfinite(record.scores).all()


def test_what_is_no_such_file_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(model: Any, **options: Any) -> str:
        with pytest.raises(CompanionError) as caught:
            lrp.load_classifier(model, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "is not a folder" in refusal(tmp_path / "none.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    assert "'broken.gguf' whose" in refusal(broken)
    path = written(tmp_path / "tiny.gguf")
    assert "with 2 .gguf files" in refusal(tmp_path)
    assert "with a device_map" in refusal(path, device_map="auto")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(SourceError, match=r"lrp-companion\[gguf\]"):
        lrp.load_classifier(path)

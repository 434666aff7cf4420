"""A language model in one .gguf file: the network it was made from, or refused by what is unread."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import randomise

import lrp_companion as lrp
from lrp_companion.checks import CompanionError

gguf: Any = pytest.importorskip("gguf")
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>", "<bos>", "<eos>", "<mask>", "<|endoftext|>"]
TOKENS = [*SPECIAL, *"abcdefgh", "Ġ", "Ġa", "Ġb"]
IDS = [1, *range(8, 19), *range(8, 16)] * 2
SIZES = {
    "vocab_size": len(TOKENS),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
GEMMA_NAMES = {
    **NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
GEMMA = {"head_dim": 6, "query_pre_attn_scalar": 6, "sliding_window": 4}
CLASSES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma2": "Gemma2", "gemma3": "Gemma3"}


def network(kind: str, **more: Any) -> Any:
    """A random network of `transformers`."""
    special = {"qwen3": {"head_dim": 128}, "gemma2": GEMMA, "gemma3": {**GEMMA, "num_hidden_layers": 7}}
    config = getattr(transformers, CLASSES[kind] + ("TextConfig" if kind == "gemma3" else "Config"))
    model = getattr(transformers, f"{CLASSES[kind]}ForCausalLM")(
        config(**{**SIZES, **special.get(kind, {}), **more})
    )
    randomise(model, 0)
    return model.eval()


def written(
    path: Path,
    model: Any,
    kind: str = "llama",
    *,
    keys: dict[str, Any] | None = None,
    tensors: dict[str, Any] | None = None,
    without: tuple[str, ...] = (),
) -> Path:
    """The network in a file, as llama.cpp's converter lays it out, with more keys and tensors."""
    c = model.config
    width = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    rotations = c.rope_parameters.get("full_attention", c.rope_parameters)
    given = {
        "context_length": c.max_position_embeddings,
        "embedding_length": c.hidden_size,
        "block_count": c.num_hidden_layers,
        "feed_forward_length": c.intermediate_size,
        "attention.head_count": c.num_attention_heads,
        "attention.head_count_kv": c.num_key_value_heads,
        "attention.key_length": width,
        "attention.value_length": width,
        "attention.layer_norm_rms_epsilon": c.rms_norm_eps,
        "rope.freq_base": float(rotations["rope_theta"]),
    }
    if kind.startswith("gemma"):
        given["attention.sliding_window"] = c.sliding_window
    writer = gguf.GGUFWriter(path, kind)
    adders = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
    }
    for key, value in {**given, **(keys or {})}.items():
        if key not in without:
            adders.get(type(value), writer.add_string)(f"{kind}.{key}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)))
    writer.add_token_merges(["Ġ a", "Ġ b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    for key, value in model.state_dict().items():
        if key == "lm_head.weight" and c.tie_word_embeddings:
            continue
        module, _, ending = key.rpartition(".")
        name = WHOLE.get(module, "")
        if not name:
            _, _, layer, inner = module.split(".", 3)
            name = f"blk.{layer}.{(GEMMA_NAMES if kind.startswith('gemma') else NAMES)[inner]}"
        value = value.float().numpy() + (kind.startswith("gemma") and "norm" in name)
        if kind == "llama" and name.endswith(("attn_q", "attn_k")):  # pairs of a rotation stand side by side
            heads = c.num_attention_heads if name.endswith("q") else c.num_key_value_heads
            value = value.reshape(heads, 2, -1, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
        writer.add_tensor(f"{name}.{ending}", np.ascontiguousarray(value, dtype=np.float32))
    for name, value in (tensors or {}).items():
        writer.add_tensor(name, np.asarray(value, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def llama3_divisors(base: float, scaling: dict[str, Any], width: int = 8) -> list[float]:
    """What llama.cpp's converter writes for Llama 3.1's scaling of rotations, by wavelength."""
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    out = []
    for k in range(0, width, 2):
        turns = scaling["original_max_position_embeddings"] / (2 * math.pi * base ** (k / width))
        smooth = (turns - low) / (high - low)
        out.append(1.0 if turns > high else factor if turns < low else 1 / ((1 - smooth) / factor + smooth))
    return out


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
DIVISORS = {"rope_freqs.weight": llama3_divisors(500.0, LLAMA3)}
NEUTRAL = {"rope.scaling.type": "none", "vocab_size": len(TOKENS), "rope.dimension_count": 8}
CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}


@pytest.mark.parametrize(
    ("kind", "config", "file"),
    [
        ("llama", {}, {}),
        ("llama", {"tie_word_embeddings": True}, {}),
        ("llama", {}, {"without": ("rope.freq_base",), "keys": NEUTRAL}),
        ("llama", {"rope_parameters": LLAMA3}, {"tensors": DIVISORS}),
        ("qwen2", {}, {}),
        ("qwen3", {}, {}),
        ("gemma2", CAPS, {"keys": CAPS}),
        ("gemma2", dict.fromkeys(CAPS), {"keys": dict.fromkeys(CAPS, 0.0)}),
        ("gemma3", {}, {}),
    ],
    ids=str,
)  # fmt: skip
def test_the_file_is_the_network_that_was_written(tmp_path: Path, kind: str, config: Any, file: Any) -> None:
    """Compared with that network, whose configuration no reader of such files made."""
    model = network(kind, **config)
    clf = lrp.load_classifier(written(tmp_path / "tiny.gguf", model, kind, **file))
    (record,) = lrp.attribute(clf, [IDS], method="attnlrp", target=9)
    with torch.no_grad():
        assert record.logit == pytest.approx(float(model(torch.tensor([IDS])).logits[0, -1, 9]), abs=2e-4)


def test_a_file_and_its_folder_are_one_model(tmp_path: Path) -> None:
    path = written(tmp_path / "tiny.gguf", network("llama"))
    clf, same = lrp.load_classifier(path), lrp.load_classifier(tmp_path)
    assert clf.card.fingerprint == same.card.fingerprint and clf.card.name == "tiny"
    assert clf.card.stored == "F32" and "unpacked from F32" in str(clf.card)
    (record,) = lrp.attribute(clf, "ab a", method="attnlrp", target=" a", contrast=" b", epsilon=1e-9)
    assert record.tokens[-1] == " a" and record.details["label"] == " a"
    assert np.isfinite(record.scores).all()


@pytest.mark.parametrize(
    "keys",
    [
        {"attention.sliding_window": 8},
        {"logit_scale": 0.5},
        {"attention.causal": False},
        {"rope.dimension_count": 4},
        {"rope.scaling.type": "linear"},
        {"anything_new": 1},
    ],
    ids=str,
)
def test_a_key_that_nobody_reads_is_refused_by_name(tmp_path: Path, keys: dict[str, Any]) -> None:
    path = written(tmp_path / "tiny.gguf", network("llama"), keys=keys)
    with pytest.raises(CompanionError) as caught:
        lrp.load_classifier(path)
    named = "attention.key_length" if "rope.dimension_count" in keys else next(iter(keys))
    assert f"llama.{named}" in str(caught.value)


@pytest.mark.parametrize("block", [("attn_q.bias", 32), ("attn_output.bias", 32), ("attn_q_norm.weight", 8)])
@pytest.mark.parametrize("layer", [0, 2])
def test_a_tensor_that_the_network_does_not_take_is_refused(tmp_path: Path, block: Any, layer: int) -> None:
    """Also that of a block beyond the number of blocks."""
    name = f"blk.{layer}.{block[0]}"
    path = written(tmp_path / "tiny.gguf", network("llama"), tensors={name: np.ones(block[1])})
    with pytest.raises(CompanionError, match=name):
        lrp.load_classifier(path)

"""Small random classifiers in the hub's on-disk format: real layouts, real tokenizers, no meaning.

Every parameter is drawn anew (biases and LayerNorm weights too), so that no rule can hide behind a zero or a
one.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import transformers

from lrp_companion import families
from lrp_companion.families.mean_pooled import MeanPooledBertForSequenceClassification
from lrp_companion.sources import Dataset

FAMILIES = tuple(families.FAMILIES)
"""Every family that the package registers: tests that run over them meet a new one at once."""
IMAGE_FAMILIES = ("vit", "deit")
"""Those that read images: `test_vision.py` tries them."""
BERT_LIKE = ("bert", "roberta", "xlm-roberta", "camembert", "mpnet", "electra", "distilbert", "albert")
"""Those in BERT's own order: `test_pre_norm.py` tries the others."""
ROBERTA_LIKE = ("roberta", "xlm-roberta", "camembert", "mpnet")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    "a", "an", "the", "film", "plot", "of", "rare", "grace", "is", "was", "not", "never", "but", "very",
    "warm", "dull", "and", "slow",
    "quick", "actor", "scene", "no", "one", "laugh", "##s", "##ed", "##ing", ",", ".", "!",
)  # fmt: skip
TEXTS = (
    "a film of rare grace",
    "the plot is not very quick , but warm .",
    "dull",
    "the actors laughed and the slow scene was never dull !",
)

NAMES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    "mpnet": "MPNet",
    "electra": "Electra",
    "distilbert": "DistilBert",
    "albert": "Albert",
}
"""What `transformers` calls the classes of a family in BERT's order."""


def edit(file: Path, **changes: object) -> Path:
    """Change entries of a JSON file; return its folder."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return file.parent


def wordpiece() -> transformers.BertTokenizerFast:
    """A WordPiece tokenizer over `WORDS`."""
    return transformers.BertTokenizerFast(
        vocab={token: index for index, token in enumerate((*SPECIAL, *WORDS))}, model_max_length=32
    )


@functools.cache
def _byte_pairs() -> tuple[dict[str, int], tuple[tuple[str, str], ...]]:
    """A byte-level vocabulary and the merges that spell every word of `WORDS`, left to right."""
    from tokenizers.pre_tokenizers import ByteLevel

    vocab = {token: index for index, token in enumerate(("<s>", "<pad>", "</s>", "<unk>", "<mask>"))}
    for letter in sorted(ByteLevel.alphabet()):
        vocab[letter] = len(vocab)
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        spelling = "Ġ" + word.removeprefix("##")
        for cut in range(1, len(spelling)):
            pair = (spelling[:cut], spelling[cut])
            if spelling[: cut + 1] not in vocab:
                vocab[spelling[: cut + 1]] = len(vocab)
                merges.append(pair)
    return vocab, tuple(merges)


def byte_pair() -> transformers.RobertaTokenizerFast:
    """A byte-level BPE tokenizer over the same words, with RoBERTa's special tokens (<pad> is 1)."""
    vocab, merges = _byte_pairs()
    return transformers.RobertaTokenizerFast(
        vocab=dict(vocab), merges=list(merges), add_prefix_space=True, model_max_length=32
    )


def randomise(model: transformers.PreTrainedModel, seed: int) -> None:
    """Draw every parameter anew: attention neither flat nor saturated, every bias and norm at work."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=draw, dtype=torch.float64)
            if "norm" in name.lower() and name.endswith("weight"):
                value.copy_(1 + 0.2 * noise)
            elif value.ndim == 1:
                value.copy_(0.2 * noise)
            elif "embeddings." in name:
                value.copy_(noise)
            else:
                value.copy_(1.2 * noise / value.shape[1] ** 0.5)


def build(
    family: str,
    *,
    layers: int = 2,
    hidden: int = 16,
    heads: int = 2,
    inner: int = 24,
    labels: int = 2,
    activation: str = "gelu",
    seed: int = 0,
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """A random classifier of one family and its tokenizer; positions for 32 tokens."""
    if family not in BERT_LIKE:
        return pre_norm(family, layers=layers, hidden=hidden, inner=inner, labels=labels, seed=seed)
    tokenizer = byte_pair() if family in ROBERTA_LIKE else wordpiece()
    names = ("negative", "positive", "mixed")[:labels]
    common = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }
    wide = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "hidden_act": activation,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-3,  # large enough to be missed where it is forgotten
        "max_position_embeddings": 32,
    }
    if family in ROBERTA_LIKE:  # positions start at pad + 1 = 2
        ends = {"bos_token_id": 0, "eos_token_id": 2}
        wide |= {"type_vocab_size": 1, "max_position_embeddings": 34, **ends}
    elif family in ("electra", "albert"):
        wide |= {"embedding_size": hidden // 2}
        wide |= {"num_hidden_groups": max(1, layers // 2)} if family == "albert" else {}
    elif family == "distilbert":
        wide = {"dim": hidden, "n_layers": layers, "n_heads": heads, "hidden_dim": inner}
        wide |= {"activation": activation, "max_position_embeddings": 32}
    config = getattr(transformers, f"{NAMES[family]}Config")(**common, **wide)
    model = getattr(transformers, f"{NAMES[family]}ForSequenceClassification")(config)
    randomise(model, seed)
    return model.eval(), tokenizer


def mean_pooled(**shape: object) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """A random BERT whose classifier reads the mean of all tokens, and its tokenizer."""
    model, tokenizer = build("bert", **shape)  # type: ignore[arg-type]
    twin = MeanPooledBertForSequenceClassification(model.config)
    twin.load_state_dict(model.state_dict())
    return twin.eval(), tokenizer


def causal_tokenizer(*, start: bool) -> transformers.PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer over the same words; with `start` a text begins with <s>, as in Llama."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    vocab, merges = _byte_pairs()
    tokenizer = Tokenizer(models.BPE(vocab=dict(vocab), merges=list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    if start:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", vocab["<s>"])]
        )
    known = {"bos_token": "<s>", "pad_token": "<pad>"} if start else {"eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32, **known)


SHARED = {"num_key_value_heads": 2, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 2}
PRE_NORM: dict[str, tuple[str, dict[str, object]]] = {
    "modernbert": ("ModernBert", {"local_attention": 4, "global_attn_every_n_layers": 2, "cls_token_id": 2,
                                  "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3,
                                  "max_position_embeddings": 32}),
    "deberta-v2": ("DebertaV2", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"],
                                 "position_buckets": 4, "share_att_key": True, "norm_rel_ebd": "layer_norm",
                                 "conv_kernel_size": 3, "conv_act": "gelu", "position_biased_input": False,
                                 "layer_norm_eps": 1e-3, "max_position_embeddings": 32}),
    "gpt2": ("GPT2", {"n_positions": 32, "bos_token_id": 2, "eos_token_id": 2}),
    "llama": ("Llama", SHARED),
    "mistral": ("Mistral", {**SHARED, "sliding_window": 4}),
    "qwen2": ("Qwen2", {**SHARED, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {**SHARED, "head_dim": 6}),
    "gemma2": ("Gemma2", {**SHARED, "head_dim": 6, "query_pre_attn_scalar": 5, "sliding_window": 4,
                          "attn_logit_softcapping": 2.0}),
    "gpt_neox": ("GPTNeoX", {"max_position_embeddings": 32, "rotary_pct": 0.5, "bos_token_id": 0,
                             "eos_token_id": 2, "layer_norm_eps": 1e-3}),
    "phi3": ("Phi3", {**SHARED, "sliding_window": 4, "partial_rotary_factor": 0.5}),
    "gemma3_text": ("Gemma3Text", {**SHARED, "head_dim": 6, "query_pre_attn_scalar": 5, "sliding_window": 4,
                                   "sliding_window_pattern": 2}),
}  # fmt: skip
PRE_NORM["gemma3"] = ("Gemma3Text", PRE_NORM["gemma3_text"][1])
"""The name in `transformers` of each family in another order than BERT's, and what its tiny model needs: two
heads of keys.
"""
BOTH_WAYS = ("modernbert", "deberta-v2")
"""Those of them that are not causal."""


def pre_norm(
    family: str,
    *,
    layers: int = 2,
    hidden: int = 16,
    inner: int = 24,
    labels: int = 2,
    seed: int = 0,
    task: str = "ForSequenceClassification",
    **more: object,
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """A random pre-LN model of one family and its tokenizer; `more` for its configuration."""
    if family not in PRE_NORM:
        raise ValueError(f"family {family!r} is registered, and this file builds no tiny model of it")
    name, special = PRE_NORM[family]
    tokenizer = wordpiece() if family in BOTH_WAYS else causal_tokenizer(start=family != "gpt2")
    names = ("negative", "positive", "mixed")[:labels]
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "pad_token_id": tokenizer.pad_token_id,
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
        ("n_inner" if family == "gpt2" else "intermediate_size"): inner,
    }
    config = getattr(transformers, f"{name}Config")(**{**sizes, **special, **more})
    name = "Gemma3" if name == "Gemma3Text" and task == "ForCausalLM" else name
    model = getattr(transformers, f"{name}{task}")(config)
    randomise(model, seed)
    return (_beside_images(model) if family == "gemma3" else model).eval(), tokenizer


def _beside_images(text: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Gemma 3 with a tower for images, which no text enters, around this network of texts."""
    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    parts = {"text_config": text.config, "vision_config": {**small, "image_size": 4, "patch_size": 2}}
    named = {"id2label": text.config.id2label, "label2id": text.config.label2id}
    config = transformers.Gemma3Config(**parts, mm_tokens_per_image=1, **named)
    classes = hasattr(text, "score")
    task = "SequenceClassification" if classes else "ConditionalGeneration"
    model = getattr(transformers, f"Gemma3For{task}")(config)
    randomise(model, 0)
    model.model.language_model.load_state_dict(text.model.state_dict())
    head = "score" if classes else "lm_head"
    getattr(model, head).load_state_dict(getattr(text, head).state_dict())
    return model


def vision(
    family: str,
    *,
    layers: int = 2,
    labels: int = 3,
    size: tuple[int, int] = (6, 9),
    channels: int = 2,
    seed: int = 0,
    kind: str = "ForImageClassification",
) -> transformers.PreTrainedModel:
    """A random model of images; patches of 2 x 3 pixels, three rows and columns of them."""
    name = {"vit": "ViT", "deit": "DeiT"}[family]
    names = ("circle", "cross", "line")[:labels]
    config = getattr(transformers, f"{name}Config")(
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=24,
        image_size=size,
        patch_size=(2, 3),
        num_channels=channels,
        layer_norm_eps=1e-3,
        id2label=dict(enumerate(names)),
        label2id={name: index for index, name in enumerate(names)},
    )
    model = getattr(transformers, f"{name}{kind}")(config)
    randomise(model, seed)
    with torch.no_grad():  # a convolution has few inputs to each output
        base = model.base_model.embeddings
        base.patch_embeddings.projection.weight.mul_(2)
    return model.eval()


def reviews(texts: Sequence[str], name: str = "sst2", split: str = "validation") -> Dataset:
    """Texts as the embedded data, with labels 0 and 1 in turn."""
    ids = tuple(map(str, range(len(texts))))
    return Dataset(name, split, "embedded", ids, np.arange(len(texts)) % 2, texts=tuple(texts))


def save(folder: Path, family: str = "bert", **shape: object) -> Path:
    """Write such a model as the hub would hold it (config, safetensors, tokenizer files)."""
    model, tokenizer = build(family, **shape)  # type: ignore[arg-type]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def without_constants(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Set biases, position and type embeddings to zero, in place: then CP-LRP loses no relevance."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith("bias") or "position_embeddings" in name or "token_type_embeddings" in name:
                value.zero_()
    return model

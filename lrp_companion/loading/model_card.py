"""The record of a loaded model: its name, sizes and labels, and fingerprints of what it reads."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from torch import nn

from lrp_companion.families.tasks import ANSWER, ENDS, task_of
from lrp_companion.families.wiring import Wiring
from lrp_companion.loading.reading import Readable
from lrp_companion.loading.texts import token_texts
from lrp_companion.schema import MULTI_LABEL, PROBLEM_TYPES, REGRESSION, ModelCard

BOOKKEEPING = (
    "_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype", "id2label", "label2id",
)  # fmt: skip
"""Entries of `config.json` on which no score depends; labels are compared by name."""
UNSET = 10**9
"""From this length on, a tokenizer's `model_max_length` says that nobody has set it."""


def card_of(files: Readable, wiring: Wiring, tokenizer: Any, *, dtype: str, fingerprint: str) -> ModelCard:
    """The record of a loaded model; what reads its images counts as its tokenizer."""
    config, images = files.config, wiring.patches is not None
    settings = {key: value for key, value in files.settings.items() if key not in BOOKKEEPING}
    # a classifier with one output is a regression, as in `transformers`, unless it is a sigmoid
    problem = str(config.problem_type or PROBLEM_TYPES[0])
    if not wiring.of_vocabulary and config.num_labels == 1 and problem != MULTI_LABEL:
        problem = REGRESSION
    processor = tokenizer.to_dict() if images and tokenizer is not None else None
    most = UNSET if images else int(tokenizer.model_max_length)
    # rotations have no end: the tokenizer decides, if somebody has set its length
    endless = wiring.position is None and most < UNSET
    return ModelCard(
        name=files.place.name,
        source=files.place.source,
        family=config.model_type,
        layers=len(wiring.layers),
        heads=wiring.heads,
        hidden=wiring.layers[0].query.in_features,
        max_tokens=most if endless else min(wiring.longest, most),
        labels=_labels(config, wiring, tokenizer),
        dtype=dtype,
        fingerprint=fingerprint,
        tokenizer=_digest(processor) if images else _tokenizer_fingerprint(tokenizer),
        config=_digest(settings),
        problem_type=problem,
        stored=files.stored,
    )


def _labels(config: Any, wiring: Wiring, tokenizer: Any) -> tuple[str, ...]:
    """Names of the classes; of a language model the tokens of its vocabulary; the two ends of an answer."""
    if task_of(config.architectures) == ANSWER:
        return ENDS
    if not wiring.of_vocabulary:
        return tuple(str(config.id2label[k]) for k in range(config.num_labels))
    unused = range(len(tokenizer), config.get_text_config().vocab_size)
    return (*token_texts(tokenizer, range(len(tokenizer))), *(f"<unused {k}>" for k in unused))


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _tokenizer_fingerprint(tokenizer: Any) -> str:
    """Fingerprint of the tokenizer: vocabulary, normaliser, splitting, special tokens, length."""
    backend = getattr(tokenizer, "backend_tokenizer", None)  # none where the family has no fast tokenizer
    state = json.loads(backend.to_str()) if backend else tokenizer.get_vocab()
    per_call = ("truncation", "padding")  # every call sets them
    state = {key: value for key, value in state.items() if key not in per_call}
    return _digest([state, sorted(tokenizer.all_special_ids), int(tokenizer.model_max_length)])


def fingerprint_of(network: nn.Module) -> str:
    """Fingerprint of the names and values of all weights."""
    digest = hashlib.sha256()
    for key, value in sorted(network.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]

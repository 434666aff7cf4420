"""What a user's own call gives: `network(**tokenizer(text))`, a token removed by the attention mask or by
hand, gradients at the word embeddings. `fuzz_runs.py` compares the package's values with these.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import lrp_companion as lrp

FAMILIES = ("bert", "roberta", "electra", "distilbert", "modernbert", "gpt2", "llama", "mistral", "gemma2")
CLOSE = 1e-5  # some networks work in float32 in places
COMPARED: Counter[str] = Counter()
"""How many values were compared."""


class Plain:
    """A network and its tokenizer as their user calls them."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        self.network, self.tokenizer = copy.deepcopy(network).double(), tokenizer
        self.classes = int(network.config.num_labels)

    def inputs(self, text: Any) -> dict[str, Tensor]:
        """What the tokenizer returns for a text or a pair."""
        return dict(self.tokenizer(*(text if isinstance(text, tuple) else (text,)), return_tensors="pt"))

    @torch.no_grad()
    def without(self, text: Any, keep: Sequence[bool], removal: str) -> Tensor:
        """The logits (C,) without some tokens."""
        inputs, kept = self.inputs(text), torch.tensor(keep)
        if removal == "attention-mask":
            inputs["attention_mask"] = kept[None].long()
        elif removal == "delete":
            inputs = {name: value[:, kept] for name, value in inputs.items()}
        else:
            filler = self.tokenizer.mask_token_id if removal == "mask-token" else self.tokenizer.pad_token_id
            inputs["input_ids"] = inputs["input_ids"].where(kept, torch.tensor(filler))
        return self.network(**inputs).logits[0]

    def products(self, text: Any, target: int, output: str, contrast: int | None) -> np.ndarray:
        """Gradient times input at the word embeddings, (T,)."""
        inputs = self.inputs(text)
        words = self.network.get_input_embeddings()(inputs.pop("input_ids")).detach().requires_grad_(True)
        logits = self.network(inputs_embeds=words, **inputs).logits[0]
        (slope,) = torch.autograd.grad(explained(logits, target, output, contrast), words)
        return (words * slope).sum(-1)[0].detach().numpy()


def explained(logits: Tensor, target: int, output: str, contrast: int | None = None) -> Tensor:
    """The number that is explained, of the logits (C,) of one text."""
    if contrast is not None:
        return logits[target] - logits[contrast]
    if output == "margin":
        others = [k for k in range(len(logits)) if k != target]
        return logits[target] - logits[others].max()
    return logits.softmax(-1)[target] if output == "probability" else logits[target]


def texts_of(inputs: Any) -> list[Any]:
    """One text or pair, or several."""
    return [inputs] if isinstance(inputs, (str, tuple)) else list(inputs)


def near(ours: Any, theirs: Any, what: str) -> None:
    """Fail where numbers differ by more than rounding."""
    ours, theirs = (np.asarray(values, dtype=np.float64) for values in (ours, theirs))
    COMPARED["values"] += theirs.size
    apart = float(np.abs(ours - theirs).max()) if ours.size else 0.0
    assert apart <= CLOSE * (1 + float(np.abs(theirs).max(initial=0))), f"{what}: {apart:.2g} apart"


def compare(clf: lrp.Classifier, plain: Plain, inputs: Any, records: Sequence[lrp.Attribution]) -> None:
    """Compare the logit of each record, its LOO and its gradients.

    Left out are the removals whose text the network itself would read otherwise: RoBERTa counts positions by
    ids that are not padding, and a causal classifier reads the last of those.
    """
    causal = clf.encoder.wiring.causal
    for text, record in zip(texts_of(inputs), records, strict=True):
        choices, size = record.choices, len(record.tokens)
        told, removal = f"{record.method} of {text!r}", choices.get("removal", "attention-mask")
        whole = plain.without(text, [True] * size, "attention-mask")
        near(record.logit, whole[record.target], f"logit, {told}")
        other = choices.get("contrast")
        how = (record.target, choices["output"]) if "output" in choices else (record.target, "logit")
        how = (*how, None if other is None else clf.labels.index(other))
        places = range(size) if record.method == "loo" else record.details.get("exact tokens", ())
        skipped = removal == "pad-token" and clf.encoder.wiring.first_position
        for place in places:
            alone = size == 1 or (causal and place == size - 1 and removal in ("pad-token", "attention-mask"))
            if skipped or alone:
                continue
            keep = [k != place for k in range(size)]
            left = explained(plain.without(text, keep, removal), *how)
            if causal and place == 0 and not left.isfinite():  # the first token then reads nothing
                continue
            near(record.scores[place], float(explained(whole, *how) - left), f"{told} at {place}, {choices}")
        if record.method == "gradient-x-input" and choices.get("site") == "word":
            near(record.scores, plain.products(text, *how), f"{told}, {choices}")

"""Objects that hold a network with its tokenizer: of sentence-transformers, SetFit, or a pipeline."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from lrp_companion.checks import ModelError, shown
from lrp_companion.families.sentences import SIMILARITIES, Part, SentenceEncoder, label


def check_texts(name: str, tokenizer: Any, *, prompt: Any, lower: Any) -> None:
    """Refuse an encoder that reads other texts than it is given."""
    if prompt or (lower and tokenizer.tokenize("A") != tokenizer.tokenize("a")):
        got = f"{name!r} with default_prompt_name {shown(prompt)} and do_lower_case {bool(lower)}"
        expected, hint = "an encoder that reads texts as they are", "unset it, and put it into your texts"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


def opened(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """The network and the tokenizer of an object that holds both: a `SentenceTransformer`, a `SetFitModel`, a
    `CrossEncoder` or a pipeline of `transformers`; anything else as it is.
    """
    body = model if hasattr(model, "similarity_fn_name") else getattr(model, "model_body", None)
    holder = model if body is None else body
    if body is None and not (hasattr(model, "model") and hasattr(model, "tokenizer")):
        return model, tokenizer
    tokenizer = copy.deepcopy(holder.tokenizer) if tokenizer is None else tokenizer
    tokenizer.model_max_length = getattr(holder, "max_seq_length", None) or tokenizer.model_max_length
    modules = [] if body is None else list(body)
    lower = getattr(modules[0], "do_lower_case", False) if modules else False
    prompt = getattr(holder, "default_prompt_name", None)
    check_texts(type(model).__name__, tokenizer, prompt=prompt, lower=lower)
    if body is None:
        return model.model, tokenizer
    parts: list[Part] = [(type(one).__name__, getattr(one, "get_config_dict", dict)()) for one in modules]
    base = copy.deepcopy(modules[0].auto_model)
    if body is model:
        label(base.config)
        return SentenceEncoder(base, parts, similarity=body.similarity_fn_name or SIMILARITIES[0]), tokenizer
    if model.normalize_embeddings:
        parts.append(("Normalize", {}))
    head = _head_of(model, base.config)
    return SentenceEncoder(base, parts, similarity=None, head=head), tokenizer


def _head_of(model: Any, config: Any) -> nn.Linear:
    """The head of a SetFitModel as one linear map; its labels go into the configuration.

    A logistic regression of two classes has one logit, that of the second.
    """
    theirs: Any = model.model_head
    weight: torch.Tensor
    if hasattr(theirs, "linear"):
        linear, scale = theirs.linear, theirs.temperature + theirs.eps
        weight = linear.weight.double() / scale
        bias = 0 if linear.bias is None else linear.bias.double() / scale
        names, sigmoid = range(len(weight)), theirs.multitarget
    else:
        weight, bias = torch.tensor(theirs.coef_), torch.tensor(theirs.intercept_)
        names, sigmoid = theirs.classes_[-len(weight) :].tolist(), len(weight) == 1
        x = np.random.default_rng(0).normal(size=(4, weight.shape[1]))
        logits = torch.tensor(x) @ weight.T + bias
        ours = logits.sigmoid() if sigmoid else logits.softmax(-1)
        if not np.allclose(theirs.predict_proba(x)[:, -len(weight) :], ours, atol=1e-6):
            got, hint = f"a head {type(theirs).__name__} of another form", "train a LogisticRegression"
            expected = "one whose probabilities are the softmax of a linear map"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
    named = [model.labels[k] if model.labels and isinstance(k, int) else k for k in names]
    label(config, named, "multi_label_classification" if sigmoid else "single_label_classification")
    head = nn.Linear(weight.shape[1], len(weight), dtype=weight.dtype)
    head.weight.data, head.bias.data = weight.detach().clone(), torch.zeros(len(weight)).to(weight) + bias
    return head

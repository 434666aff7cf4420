"""AttnLRP by LXT: `python lxt_scores.py MODEL_FOLDER TEXTS.json SCORES.json STABILISER`, where LXT is.

Imports nothing of this project. TEXTS.json lists `input_ids` and `target`; the scores are gradient times
embedding, read at the word embeddings, as LXT's documentation does it. STABILISER is added where LXT divides
by the input of an activation; its default is 1e-10.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lxt.efficient import monkey_patch, rules
from transformers.models.bert import modeling_bert

PACKAGES = ("lxt", "torch", "transformers")


def scores_of(model: Any, input_ids: list[int], target: int) -> dict[str, Any]:
    """Relevance of every token, (T,), and the logit of the target."""
    ids = torch.tensor([input_ids])
    embedded = model.get_input_embeddings()(ids).detach().requires_grad_(True)
    logit = model(inputs_embeds=embedded, attention_mask=torch.ones_like(ids)).logits[0, target]
    (gradient,) = torch.autograd.grad(logit, embedded)
    return {"scores": (embedded * gradient).sum(-1)[0].tolist(), "logit": logit.item()}


def main(folder: str, texts: str, out: str, stabiliser: str) -> None:
    """Score every text of the list in float64."""
    rules.identity_rule_implicit_fn.forward.__defaults__ = (float(stabiliser),)
    monkey_patch(modeling_bert)
    model = modeling_bert.BertForSequenceClassification.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    rows = [scores_of(model, **text) for text in json.loads(Path(texts).read_text(encoding="utf-8"))]
    record = {"versions": {name: version(name) for name in PACKAGES}, "rows": rows}
    Path(out).write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

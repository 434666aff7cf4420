"""AttnLRP or CP-LRP by LXT: `python lxt_scores.py JOBS.json`, where LXT is.

Imports nothing of this project. A job has the `folder` of a model, `texts` (lists of `input_ids` and
`target`), the file `out` for the answer, and `options`: `stabiliser` is added where LXT divides by the input
of an activation (its default is 1e-10); `rules` is the name of its map of rules; `precise` names what works
in the number format of the network instead of float32: "norms" (RMSNorms), "softmax". The scores are gradient
times embedding, read at the word embeddings, as LXT's documentation does it. LXT cannot undo its patches, so
each job runs in a fork.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lxt.efficient import monkey_patch
from lxt.efficient.rules import identity_rule_implicit_fn
from transformers import AutoModelForSequenceClassification

PACKAGES = ("lxt", "torch", "transformers")
LIBRARY = {"gemma3_text": "gemma3"}
"""The module of `transformers` and LXT, where it has another name than the family."""


def scores_of(model: Any, input_ids: list[int], target: int) -> dict[str, Any]:
    """Relevance of every token, (T,), and the logit of the target."""
    ids = torch.tensor([input_ids])
    embedded = model.get_input_embeddings()(ids).detach().requires_grad_(True)
    logit = model(inputs_embeds=embedded, attention_mask=torch.ones_like(ids)).logits[0, target]
    (gradient,) = torch.autograd.grad(logit, embedded)
    return {"scores": (embedded * gradient).sum(-1)[0].tolist(), "logit": logit.item()}


def patch(
    family: str, *, stabiliser: float = 1e-10, rules: str = "attnLRP", precise: Sequence[str] = ()
) -> None:
    """Put LXT's rules into the modules of a family."""
    identity_rule_implicit_fn.forward.__defaults__ = (stabiliser,)
    library = LIBRARY.get(family, family)
    module = importlib.import_module(f"transformers.models.{library}.modeling_{library}")
    monkey_patch(module, getattr(importlib.import_module(f"lxt.efficient.models.{library}"), rules))
    if "softmax" in precise:
        softmax = torch.nn.functional.softmax
        torch.nn.functional.softmax = lambda x, dim, dtype=None: softmax(x, dim=dim)
    if "norms" in precise:
        for key, kind in vars(module).items():
            if key.endswith("RMSNorm"):
                kind.forward = gemma_norm if hasattr(kind, "_norm") else llama_norm


def llama_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """RMSNorm with a constant denominator, in the number format of its input."""
    return self.weight * (x / (x.square().mean(-1, keepdim=True) + self.variance_epsilon).sqrt().detach())


def gemma_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """The same with Gemma's 1 + weight."""
    return (1 + self.weight) * (x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt().detach())


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Score every text of a job in float64."""
    family = json.loads(Path(job["folder"], "config.json").read_text(encoding="utf-8"))["model_type"]
    patch(family, **job["options"])
    model = AutoModelForSequenceClassification.from_pretrained(
        job["folder"], dtype=torch.float64, attn_implementation="eager"
    ).eval()
    rows = [scores_of(model, **text) for text in job["texts"]]
    return {"versions": {name: version(name) for name in PACKAGES}, "rows": rows}


def main(jobs: str) -> None:
    """Answer every job, each in a fork; one that fails says why."""
    for job in json.loads(Path(jobs).read_text(encoding="utf-8")):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            record = answer(job)
        except Exception as error:  # whatever a peer does with a network that it does not know
            record = {"failed": f"{type(error).__name__}: {error}"[:300]}
        Path(job["out"]).write_text(json.dumps(record), encoding="utf-8")
        os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)  # a fork cannot use the threads of its parent
    main(*sys.argv[1:])

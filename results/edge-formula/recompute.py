"""Key cut and the secant mask gradient again, from their formulas alone: transformers and autograd, float64.

    python results/edge-formula/recompute.py MODEL DATA RUN [ROWS]

MODEL is the folder of a BERT classifier, DATA has sst2/validation.parquet, RUN is a run with maps, such as
`results/edge-formula/sst2-companion` of `lrp_companion/embedded/companion`. Printed is how far the run's maps
of the first ROWS (10) rows lie from those computed here, by method, in parts of the largest score and beyond
the 13 bits to which a run rounds. Nothing of lrp_companion is used.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

ROUNDED = 2.0**-13


def held(x: Tensor) -> Tensor:
    """A constant on the way back."""
    return x.detach()


def product(a: Tensor, b: Tensor, lrp: bool) -> Tensor:
    """`a b`; on the way back of LRP each factor gets half."""
    return (held(a) @ b + a @ held(b)) / 2 if lrp else a @ b


def activation(function, x: Tensor, lrp: bool) -> Tensor:
    """On the way back of LRP relevance passes as it is."""
    return x * held(function(x) / x) if lrp else function(x)


def norm(layer, x: Tensor, lrp: bool) -> Tensor:
    """LayerNorm; its denominator is a constant on the way back of LRP."""
    size = (x.var(-1, keepdim=True, correction=0) + layer.eps).sqrt()
    return layer.weight * (x - x.mean(-1, keepdim=True)) / (held(size) if lrp else size) + layer.bias


def forward(model, ids: Tensor, *, lrp: bool = False, special: Tensor | None = None):
    """Logits, the summands of the embedding, and of each layer Z, V and O = A V (heads, tokens, ...).

    With `special`, keys of these tokens are constants on the way back.
    """
    bert, layers = model.bert, []
    places = bert.embeddings.position_embeddings.weight[: len(ids)]
    summands = [held(x).requires_grad_() for x in (bert.embeddings.word_embeddings(ids), places)]
    kind = held(bert.embeddings.token_type_embeddings.weight[0])
    x = norm(bert.embeddings.LayerNorm, summands[0] + summands[1] + kind, lrp)
    for layer in bert.encoder.layer:
        attend, out = layer.attention.self, layer.attention.output
        q, k, v = (f(x).unflatten(-1, (model.config.num_attention_heads, -1)).transpose(0, 1)
                   for f in (attend.query, attend.key, attend.value))  # fmt: skip
        if special is not None:
            k = torch.where(special[:, None], held(k), k)
        z = product(q, k.mT, lrp) / q.shape[-1] ** 0.5
        read = product(z.softmax(-1), v, lrp)
        layers.append((z, v, read))
        x = norm(out.LayerNorm, x + out.dense(read.transpose(0, 1).flatten(-2)), lrp)
        inner = activation(torch.nn.functional.gelu, layer.intermediate.dense(x), lrp)
        x = norm(layer.output.LayerNorm, x + layer.output.dense(inner), lrp)
    return model.classifier(activation(torch.tanh, bert.pooler.dense(x[0]), lrp)), summands, layers


def key_cut(model, ids: Tensor, special: Tensor) -> np.ndarray:
    """AttnLRP with keys of special tokens held: relevance at words and at positions, (2, tokens)."""
    logits, summands, _ = forward(model, ids, lrp=True, special=special)
    g = torch.autograd.grad(logits.max(), summands)
    return np.array([(x * of).sum(-1).detach().numpy() for x, of in zip(summands, g, strict=True)])


def secant(model, ids: Tensor) -> np.ndarray:
    """The sum of D_ji . g_j over layers, heads and queries j: what query j reads less without key i, times
    the gradient there. A token's own query counts only at [CLS], which the head reads.
    """
    logits, _, layers = forward(model, ids)
    g = torch.autograd.grad(logits.max(), [read for *_, read in layers])
    scores = np.zeros(len(ids))
    for (z, v, read), of in zip(layers, g, strict=True):
        for i in range(len(ids)):
            without = z.index_fill(-1, torch.tensor([i]), -torch.inf).softmax(-1) @ v
            effect = ((read - without) * of).sum((0, -1))
            scores[i] += (effect.sum() - (effect[i] if i else 0)).item()
    return scores


@torch.no_grad()
def loo(model, ids: Tensor, places: list[int]) -> np.ndarray:
    """Leave-One-Out by the attention mask, of some places."""
    mask = torch.ones(len(places) + 1, len(ids))
    mask[range(1, len(mask)), places] = 0
    logits = model(input_ids=ids.expand(len(mask), -1), attention_mask=mask).logits
    whole, *less = logits[:, logits[0].argmax()].tolist()
    return whole - np.array(less)


def maps(model, ids: Tensor, special: Tensor) -> dict[str, np.ndarray]:
    """The maps of one text by the run's names."""
    plain, places = secant(model, ids), special.nonzero().flatten().tolist()
    exact = plain.copy()
    exact[places] = loo(model, ids, places)
    return {
        "key-cut": key_cut(model, ids, special),
        "secant-mask-gradient:special=secant": plain[None],
        "secant-mask-gradient": exact[None],
    }


def main(folder: str, data: str, run: str, rows: str = "10") -> None:
    """Compare the first rows of the data with the run."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).double().eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    table = pq.read_table(f"{run}/methods.parquet", columns=["job", "method", "map"]).to_pylist()
    known = {(row["job"], row["method"]): row["map"] for row in table}
    furthest: dict[str, float] = {}
    sentences = pq.read_table(f"{data}/sst2/validation.parquet")["sentence"].to_pylist()
    for row, sentence in enumerate(sentences[: int(rows)]):
        ids = torch.tensor(tokenizer(sentence)["input_ids"])
        special = (ids == tokenizer.cls_token_id) | (ids == tokenizer.sep_token_id)
        for name, ours in maps(model, ids, special).items():
            theirs = np.array(known[row, name]).reshape(3, -1)[: len(ours)]
            gap = (np.abs(ours - theirs) - ROUNDED * np.abs(theirs)).max() / np.abs(ours).max()
            furthest[name] = max(furthest.get(name, 0.0), gap)
    for name, gap in furthest.items():
        print(f"{name}: at most {gap:.1e} of a map's largest score beyond rounding, {rows} rows")
        if not gap < 1e-4:
            sys.exit(f"{name} differs")


if __name__ == "__main__":
    main(*sys.argv[1:])

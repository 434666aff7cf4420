"""One function, two sets of embeddings: at which sites relevance stays the same.

BERT first adds a word, a position and a type embedding. Add a vector c to every word embedding and subtract
it from every position embedding: no sum changes, and so the function is the same for every input. Relevance
is `R = e . g` for each embedding e with one g for the sum, so it moves by `c . g_t` at the word and by `-c .
g_t` at the position, and their sum does not move. Relevance at the words alone therefore depends on how the
function is written down, not on the function (Sundararajan et al. 2017 call the property that fails
*implementation invariance*). A vector moved between type and word does the same to words + positions; only
the whole sum is safe.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from lrp_book.records import config_of, is_bert, rounded
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods import explain
from lrp_companion.methods.common import output_gradient, to_numpy, watch
from lrp_companion.metrics.faithfulness import cross_correlation
from lrp_companion.sources import Dataset

METHODS = ("attnlrp", "cp-lrp")
SIZES = (0.25, 0.5, 1.0)
"""Norms of the adversarial c, in mean norms of a word embedding."""
STEPS, RATE = 150, 0.05
"""Of Adam, in the search for an adversarial c."""


@torch.no_grad()
def shifted(clf: Classifier, c: np.ndarray, *, source: str = "position") -> Classifier:
    """The same function in other embeddings: c (E,) added to every word and subtracted from every position
    (or type). A copy, whose logits are those of `clf` up to rounding.
    """
    out = Classifier(copy.deepcopy(clf.network), clf.tokenizer, card=clf.card)
    wiring: Any = out.encoder.wiring
    vector = torch.as_tensor(c, dtype=clf.dtype, device=clf.device)
    wiring.word.weight += vector
    getattr(wiring, source).weight -= vector
    return out


@dataclass(frozen=True)
class EmbeddingG:
    """Of one text: relevance at the words (T,), `g` at the sum of embeddings (T, E), LOO (T,)."""

    word: np.ndarray
    g: np.ndarray
    loo: np.ndarray
    special: np.ndarray

    def relevance(self, c: np.ndarray | None = None) -> np.ndarray:
        """R (T,) at the words after a shift by c from positions to words."""
        return self.word if c is None else self.word + self.g @ np.asarray(c)


@torch.no_grad()
def embedding_g(
    clf: Classifier, text: EncodedText, method: str, *, target: int, loo_map: np.ndarray
) -> EmbeddingG:
    """g at the sum of the embeddings, and relevance at the words, by one of `METHODS`."""
    assert is_bert(clf.encoder.wiring)  # positions in a table, the first token read
    ids = torch.tensor([text.input_ids], device=clf.device)
    tape = clf.encoder.forward(ids, torch.ones_like(ids))
    chosen = torch.tensor([target], device=clf.device)
    g = tape.head.backward(output_gradient(tape.logits, chosen, "logit", multi_label=clf.multi_label))
    for layer in reversed(tape.layers):
        g = layer.backward(g, bypass=method == "cp-lrp")
    g = tape.embedding.backward(g)
    word = to_numpy((tape.embedding.parts["word"] * g).sum(-1))[0]
    return EmbeddingG(word, to_numpy(g)[0], np.asarray(loo_map), text.special)


def explain_all(
    clf: Classifier, texts: Sequence[EncodedText], method: str, *, progress: bool | None = None
) -> list[EmbeddingG]:
    """`embedding_g` and LOO by the attention mask of each text, for its predicted class."""
    records = explain("loo", clf, texts, [None] * len(texts), progress=progress)
    pairs = list(zip(texts, records, strict=True))
    return [
        embedding_g(clf, text, method, target=record.target, loo_map=record.scores)
        for text, record in watch(pairs, progress=progress, label=method)
    ]


def r_after(explained: Iterable[EmbeddingG], c: np.ndarray | None = None) -> np.ndarray:
    """Pearson's r with LOO of each text after a shift, special tokens left out, (n,); NaN where undefined."""
    out = []
    for one in explained:
        a, b = one.relevance(c)[~one.special], one.loo[~one.special]
        out.append(cross_correlation(a[None], b[None], "pearson").item() if len(a) > 1 else np.nan)
    return np.array(out)


def adversarial_shift(explained: Sequence[EmbeddingG], *, size: float) -> np.ndarray:
    """The c of a given norm that lowers the mean r at the words most, (E,).

    Gradient descent (Adam) on the mean r of these texts, c projected to the norm after every step. This is a
    search: its best value is only a lower bound on the possible effect.
    """
    words = [(one, ~one.special) for one in explained if (~one.special).sum() > 1]
    kept = torch.zeros(len(words), max(int(at.sum()) for _, at in words), dtype=torch.bool)
    base, target = torch.zeros(kept.shape), torch.zeros(kept.shape)
    g = torch.zeros(*kept.shape, words[0][0].g.shape[1])
    for k, (one, at) in enumerate(words):
        n = int(at.sum())
        kept[k, :n] = True
        for filled, values in ((base, one.relevance()), (target, one.loo), (g, one.g)):
            filled[k, :n] = torch.as_tensor(values[at], dtype=torch.float32)

    def centred(x: Tensor) -> Tensor:
        x = torch.where(kept, x, torch.zeros(()))
        return torch.where(kept, x - x.sum(1, keepdim=True) / kept.sum(1, keepdim=True), torch.zeros(()))

    b = normalize(centred(target), dim=1)
    c = torch.randn(g.shape[-1], generator=torch.Generator().manual_seed(0))
    c = (c / c.norm() * size).requires_grad_(True)
    optimiser = torch.optim.Adam([c], lr=RATE * size)
    with torch.enable_grad():
        for _ in range(STEPS):
            r = (normalize(centred(base + g @ c), dim=1) * b).sum(1).mean()
            optimiser.zero_grad()
            r.backward()
            optimiser.step()
            with torch.no_grad():
                c *= size / c.norm()
    return to_numpy(c.detach())


def shift_record(
    clf: Classifier,
    data: Dataset,
    train: Dataset,
    *,
    limit: int | None = None,
    fit: int = 200,
    seed: int = 0,
    progress: bool | None = None,
) -> dict[str, Any]:
    """r at the words of each method, as it is and under adversarial shifts found on other texts.

    Parameters
    ----------
    data, train : the judged texts, and those of another split on which the adversarial c is searched.
    limit, fit : random samples of the two (default: all judged ones, and 200).

    Returns
    -------
    dict
        `config`, `made with`, `example` (rows of the split), `rows`: `method`, `shift`, `size` (|c| in mean
        norms of a word embedding), `r` (list over the texts).
    """
    sample = data.order(limit, seed=seed)
    texts = clf.encode([data.texts[k] for k in sample], truncate=True)
    others = clf.encode([train.texts[k] for k in train.order(fit, seed=seed)], truncate=True)
    unit = float(clf.encoder.wiring.word.weight.detach().norm(dim=1).mean())
    rows: list[dict[str, Any]] = []
    for method in METHODS:
        judged, searched = (explain_all(clf, some, method, progress=progress) for some in (texts, others))
        rows.append({"method": method, "shift": "none", "size": 0.0, "r": rounded(r_after(judged))})
        for size in SIZES:
            r = rounded(r_after(judged, adversarial_shift(searched, size=size * unit)))
            rows.append({"method": method, "shift": "lowest r found", "size": size, "r": r})
    config = config_of(clf, data, texts, seed) | {"searched on": train.describe(), "fit": len(others)}
    return {"config": config, "made with": surroundings(), "example": sample, "rows": rows}

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_book.records.tune_options import config_of
from lrp_companion.arrays import real_array
from lrp_companion.attribution import CANCELLED, SITES, scores_at
from lrp_companion.checks import InputError, choose, number
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods.common import check_bert_order, output_gradient, to_numpy, watch
from lrp_companion.methods.perturbation import loo
from lrp_companion.provenance import surroundings
from lrp_companion.sources import Dataset

METHODS = ("gradient-x-input", "attnlrp", "cp-lrp")
STEPS, RATE = 150, 0.05
"""Of Adam, in the search for an adversarial c."""


def shifted(clf: Classifier, c: np.ndarray | Tensor, *, source: str = "position") -> Classifier:
    """The same function in other embeddings: c added to every word and subtracted from every position (or
    type).

    Parameters
    ----------
    c : shape (E,), the width of the embeddings.
    source : "position" or "type": the embeddings from which c is subtracted.

    Returns
    -------
    Classifier
        A copy whose logits equal those of `clf` up to rounding, for every input.

    Raises
    ------
    InputError : a shape other than (E,), entries that are not finite, or a model without such embeddings.

    >>> clf = load_classifier("companion", dtype="float64")  # doctest: +SKIP
    >>> shifted(clf, natural_shifts(clf)["mean position embedding"])  # doctest: +SKIP
    """
    choose("shifted", "source", source, ("position", "type"))
    check_bert_order("shifted", clf)
    width = clf.encoder.wiring.word.weight.shape[1]
    vector = torch.as_tensor(real_array("shifted", "c", c), dtype=clf.dtype, device=clf.device)
    if vector.shape != (width,) or not torch.isfinite(vector).all():
        got, expected = f"c of shape {tuple(vector.shape)}", f"({width},) finite numbers"
        raise InputError("shifted", got=got, expected=expected, hint="one entry per embedding dimension")
    out = Classifier(copy.deepcopy(clf.network), clf.tokenizer, card=clf.card)
    wiring = out.encoder.wiring
    taken: Any = wiring.position if source == "position" else wiring.type
    if taken is None:
        hint = 'shift with source="position"'
        raise InputError("shifted", got=f"{clf.card.name}", expected=f"{source} embeddings", hint=hint)
    with torch.no_grad():
        word: Any = wiring.word
        word.weight += vector
        taken.weight -= vector
    return out


def natural_shifts(clf: Classifier) -> dict[str, np.ndarray]:
    """Natural, not adversarial, shifts c by name, each (E,).

    The mean position embedding (a constant that words could as well carry), minus the mean word embedding
    (words centred), and the first type embedding, which checkpoints without types hold in another place.
    """
    wiring: Any = check_bert_order("natural_shifts", clf).encoder.wiring
    out = {
        "mean position embedding": wiring.position.weight.mean(0),
        "minus the mean word embedding": -wiring.word.weight.mean(0),
    }
    if wiring.type is not None:
        out["type embedding"] = wiring.type.weight[0]
    return {name: to_numpy(value.detach()) for name, value in out.items()}


@dataclass(frozen=True)
class EmbeddingG:
    """Of one text: `parts`, relevance by part of the embedding sum (T,), `g` at the sum (T, E), LOO (T,)."""

    parts: Mapping[str, np.ndarray]
    g: np.ndarray
    loo: np.ndarray
    special: np.ndarray

    def relevance(self, c: np.ndarray | None = None, *, site: str = "word") -> np.ndarray:
        """R (T,) at words, words + positions or the whole sum after a shift by c from positions to words."""
        scores = scores_at(self.parts, choose("EmbeddingG.relevance", "site", site, SITES))
        size = sum(np.abs(part).sum() for part in self.parts.values())
        if np.abs(scores).sum() <= CANCELLED * size:  # gradient x input of the whole sum is rounding
            scores = np.full_like(scores, np.nan)
        return scores if c is None or site != "word" else scores + self.g @ np.asarray(c)


def embedding_g(
    clf: Classifier, text: EncodedText, method: str, *, target: int, loo_map: np.ndarray
) -> EmbeddingG:
    """g at the sum of the embeddings, and relevance by part, by AttnLRP, CP-LRP or the gradient."""
    choose("embedding_g", "method", method, METHODS)
    ids = torch.tensor([text.input_ids], device=clf.device)
    ones = torch.ones_like(ids)
    if method == "gradient-x-input":
        with torch.enable_grad():
            word = clf.encoder.embed(ids).detach().requires_grad_(True)
            tape = clf.encoder.forward(ids, ones, word=word)
            (g,) = torch.autograd.grad(tape.logits[0, target], word)
    else:
        with torch.no_grad():
            tape = clf.encoder.forward(ids, ones)
            chosen = torch.tensor([target], device=clf.device)
            g = output_gradient(tape.logits, chosen, "logit", multi_label=clf.multi_label)
            g = tape.head.backward(g)
            for layer in reversed(tape.layers):
                g = layer.backward(g, bypass=method == "cp-lrp")
            g = tape.embedding.backward(g)
    with torch.no_grad():
        parts = {name: to_numpy((part * g).sum(-1))[0] for name, part in tape.embedding.parts.items()}
    return EmbeddingG(parts, to_numpy(g.detach())[0], np.asarray(loo_map), text.special)


def explain_all(
    clf: Classifier, texts: Sequence[EncodedText], method: str, *, progress: bool | None = None
) -> list[EmbeddingG]:
    """`embedding_g` and LOO by the attention mask of each text, for its predicted class."""
    records = loo(clf, texts, [None] * len(texts), progress=progress)
    pairs = zip(texts, records, strict=True)
    return [
        embedding_g(clf, text, method, target=record.target, loo_map=record.scores)
        for text, record in watch(list(pairs), progress=progress, label=method)
    ]


def r_after(
    explained: Iterable[EmbeddingG], c: np.ndarray | None = None, *, site: str = "word"
) -> np.ndarray:
    """Pearson's r with LOO of each text after a shift, special tokens left out, (n,); NaN where undefined."""
    out = []
    for one in explained:
        keep = ~one.special
        a, b = one.relevance(c, site=site)[keep], one.loo[keep]
        a, b = a - a.mean(), b - b.mean()
        size = np.linalg.norm(a) * np.linalg.norm(b)
        out.append(float(a @ b / size) if keep.sum() > 1 and size > 0 else float("nan"))
    return np.array(out)


def adversarial_shift(
    explained: Sequence[EmbeddingG], *, size: float, sign: int = -1, seed: int = 0
) -> np.ndarray:
    """The c of a given norm that lowers (sign -1) or raises (+1) the mean r at the words most, (E,).

    Gradient ascent (Adam) on the mean r of these texts, c projected to the norm after every step. This is a
    search: its best value is only a lower bound on the possible effect.

    Parameters
    ----------
    size : the norm of c, above 0, in units of the embeddings.
    """
    number("adversarial_shift", "size", size, above=0, hint="try the mean norm of the word embeddings")
    if sign not in (-1, 1):
        raise InputError("adversarial_shift", got=f"sign {sign!r}", expected="-1 or 1", hint="-1 lowers r")
    usable = [one for one in explained if (~one.special).sum() > 1]
    longest = max(int((~one.special).sum()) for one in usable)
    kept = np.zeros((len(usable), longest), dtype=bool)
    base, target = np.zeros(kept.shape), np.zeros(kept.shape)
    g = np.zeros((*kept.shape, usable[0].g.shape[1]))
    for k, one in enumerate(usable):
        words = ~one.special
        n = int(words.sum())
        kept[k, :n] = True
        base[k, :n], target[k, :n], g[k, :n] = one.relevance()[words], one.loo[words], one.g[words]
    base_, target_, g_ = (torch.as_tensor(x, dtype=torch.float32) for x in (base, target, g))
    return _climb(base_, target_, g_, torch.as_tensor(kept), size=size, sign=sign, seed=seed)


def _climb(
    base: Tensor, loo_maps: Tensor, g: Tensor, kept: Tensor, *, size: float, sign: int, seed: int
) -> np.ndarray:
    """`adversarial_shift` on padded maps (n, T) and g (n, T, E)."""
    counts = kept.sum(1, keepdim=True)

    def centred(x: Tensor) -> Tensor:
        x = torch.where(kept, x, torch.zeros(()))
        return torch.where(kept, x - x.sum(1, keepdim=True) / counts, torch.zeros(()))

    b = torch.nn.functional.normalize(centred(loo_maps), dim=1)
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(g.shape[-1], generator=generator)
    c = (c / c.norm() * size).requires_grad_(True)
    optimiser = torch.optim.Adam([c], lr=RATE * size)
    with torch.enable_grad():
        for _ in range(STEPS):
            r = (torch.nn.functional.normalize(centred(base + g @ c), dim=1) * b).sum(1).mean()
            optimiser.zero_grad()
            (-sign * r).backward()
            optimiser.step()
            with torch.no_grad():
                c *= size / c.norm()
    return to_numpy(c.detach())


def shift_effects(
    clf: Classifier,
    explained: Mapping[str, Sequence[EmbeddingG]],
    fitted_on: Mapping[str, Sequence[EmbeddingG]],
    *,
    sizes: Sequence[float] = (0.25, 0.5, 1.0),
) -> list[dict[str, Any]]:
    """r at the words of each method under natural shifts, and under adversarial ones found on other texts.

    Parameters
    ----------
    explained, fitted_on : method to `explain_all` of the texts that are judged, and of those on which the
        adversarial c is searched.
    sizes : norms of the adversarial c, in mean norms of a word embedding.

    Returns
    -------
    list
        Rows `method`, `shift`, `size` (|c| in mean norms of a word embedding), `r` (list over the texts), and
        for adversarial ones `sign`.
    """
    unit = float(clf.encoder.wiring.word.weight.detach().norm(dim=1).mean())
    rows: list[dict[str, Any]] = []

    def add(method: str, shift: str, c: np.ndarray | None, **more: Any) -> None:
        r = r_after(explained[method], c)
        size = 0.0 if c is None else float(np.linalg.norm(c)) / unit
        rows.append({"method": method, "shift": shift, "size": round(size, 4), **more, "r": _short(r)})

    for method in explained:
        add(method, "none", None)
        for name, c in natural_shifts(clf).items():
            add(method, name, c)
        for share in sizes:
            for sign in (-1, 1):
                c = adversarial_shift(fitted_on[method], size=share * unit, sign=sign)
                add(method, f"{'lowest' if sign < 0 else 'highest'} r found", c, sign=sign)
        for site in ("word+position", "embedding"):
            r = r_after(explained[method], site=site)
            rows.append({"method": method, "shift": "any", "site": site, "size": 0.0, "r": _short(r)})
    return rows


def shift_record(
    clf: Classifier,
    data: Dataset,
    train: Dataset,
    *,
    limit: int | None = None,
    fit: int = 200,
    checked: int = 50,
    seed: int = 0,
    progress: bool | None = None,
) -> dict[str, Any]:
    """`shift_effects` on a data set, the adversarial c searched on texts of another split: numbers only.

    Parameters
    ----------
    limit : a random sample of the judged texts (default: all); `fit`, of those on which c is searched.
    checked : number of texts on which the logits of the shifted models are compared in float64.

    Returns
    -------
    dict
        `config`, `made with`, `example` (rows of the split), `rows` (see `shift_effects`), and `logit gap`,
        the largest difference of any logit between the model and a shifted one, by shift.
    """
    sample = data.order(limit, seed=seed)
    texts = clf.encode([data.texts[k] for k in sample], truncate=True)
    others = clf.encode([train.texts[k] for k in train.order(fit, seed=seed)], truncate=True)
    explained = {method: explain_all(clf, texts, method, progress=progress) for method in METHODS}
    fitted_on = {method: explain_all(clf, others, method, progress=progress) for method in METHODS}
    config = config_of(clf, data, texts, seed) | {"searched on": train.describe(), "fit": len(others)}
    return {
        "config": config, "made with": surroundings(), "example": sample,
        "rows": shift_effects(clf, explained, fitted_on), "logit gap": logit_gaps(clf, texts[:checked]),
    }  # fmt: skip


@torch.no_grad()
def logit_gaps(clf: Classifier, texts: Sequence[EncodedText]) -> dict[str, float]:
    """The largest difference of a logit between the model and its naturally shifted copies, in float64."""
    exact = Classifier(copy.deepcopy(clf.network).double(), clf.tokenizer, card=clf.card)
    shifts = natural_shifts(exact)
    copies = {
        name: shifted(exact, c, source="type" if name.startswith("type") else "position")
        for name, c in shifts.items()
    }
    out = dict.fromkeys(copies, 0.0)
    for text in texts:
        ids = torch.tensor([text.input_ids], device=clf.device)
        here = exact.encoder.forward(ids, torch.ones_like(ids)).logits
        for name, copied in copies.items():
            gap = (copied.encoder.forward(ids, torch.ones_like(ids)).logits - here).abs().max()
            out[name] = max(out[name], float(gap))
    return out


def _short(r: np.ndarray) -> list[float | None]:
    return [None if np.isnan(x) else round(float(x), 5) for x in r]

"""Layer-wise relevance propagation on text: AttnLRP, CP-LRP, PA-LRP and every mask between, as one method.

AttnLRP bypasses no layer, and CP-LRP bypasses all. PA-LRP (Bakish et al. 2025) is AttnLRP read at word +
position. The methods differ in their entries, not in code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_companion.attribution import Attribution
from lrp_companion.checks import SITES, InputError, check_epsilon, check_layers, choose, scores_at, shown
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods.common import (
    Request,
    check_classifier,
    check_output,
    classes_of,
    finite,
    output_gradient,
    targets_of,
    to_numpy,
)
from lrp_companion.registry import Style, called, method, print_of
from lrp_companion.schema import Lattice
from lrp_companion.tape.attention import HALVES, PATHS, PathCut, Shares
from lrp_companion.tape.encoder import MEMORY, all_masks, as_recorded, parts_and_angles, relevance_parts
from lrp_companion.tape.steps import CAUSES, EXCHANGEABLE, GATES, exchanging, keeps, metered, taken

POSITIONS = ("absolute", "signed")
"""How the relevance of rotations is added up over layers; the published way is "absolute"."""
CUT_TOKENS = ("special", "sinks", "all")
SINK = 0.25
"""The attention that a sink draws: of one layer, a mean over heads and queries."""
Cuts = Sequence[Any]
MOST_LAYERS = 1000
"""More layers than any model has; the loaded model's number is checked later."""


def check_rules(
    operation: str,
    clf: Classifier,
    *,
    site: str = "word",
    epsilon: float = 0.0,
    gate: str = "uniform",
    positions: str | None = None,
) -> float:
    """Return epsilon; refuse a site or a treatment of gates and positions that this network does not have.

    `positions` is None for a method that does not treat rotations.
    """
    wiring = clf.encoder.wiring
    choose(operation, "site", site, SITES)
    rotated = site == "word+position" and wiring.rotary is not None
    if rotated and positions is None:
        got = f"site {site!r} with {clf.card.name!r}, whose positions are rotations of queries and keys"
        raise InputError(operation, got=got, expected="site 'word'", hint="method pa-lrp knows rotations")
    known = POSITIONS[0] if positions is None else choose(operation, "positions", positions, POSITIONS)
    if known != POSITIONS[0] and not rotated:
        got, expected = f"positions {positions!r}", "positions that are rotations, read by pa-lrp"
        raise InputError(operation, got=got, expected=expected, hint="leave it out")
    if choose(operation, "gate", gate, GATES) != GATES[0] and not wiring.gated:
        got = f"gate {gate!r} with {clf.card.name!r}, whose MLPs have no gate"
        raise InputError(operation, got=got, expected="a network with gated MLPs", hint="leave it out")
    return check_epsilon(operation, epsilon)


def _of_rotations(word: Tensor, tables: Sequence[Tensor], positions: str) -> Tensor:
    """The relevance of rotations (B, T): of each token, layer and table (cosines, sines) one number, summed
    over heads, queries, keys and width. These numbers are added up with their signs, or as absolute values
    (Bakish et al. 2025), which are no longer shares of the logit.
    """
    signed = torch.stack([table.to(word.device) for table in tables] or [torch.zeros_like(word)])
    return (signed.abs() if positions == "absolute" else signed).sum(0)


@dataclass(frozen=True)
class RuleSet:
    """The rules of a method: in which layers attention is a constant, where relevance is read, and functions
    of one's own.

    Attributes
    ----------
    name : the method's name.
    bypass : the layers, from 1, in which the values receive everything (`rules.attention_values`) instead of
        half, the rest going through the softmax (`rules.matmul`, `rules.softmax`); or a function that
        returns them for a number of layers.
    site : where relevance is read; None leaves it to the caller.
    cut : paths that carry nothing back, as `lrp` takes them.
    shares : two pairs, each summing to 1: what A and V receive of the relevance at `O = A V`, then Q and K
        of that at `Z = Q K^T`; AttnLRP's halves by default, Eq. (3) and (4).
    rules : functions in place of those of `lrp_companion.rules`, by their names; none by default.
    """

    name: str
    bypass: Iterable[int] | Callable[[int], Iterable[int]] = ()
    site: str | None = None
    cut: Cuts = ()
    shares: Shares = HALVES
    rules: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def prints(self) -> dict[str, str]:
        """What stands for each of its functions in records and in runs: its name and its fingerprint."""
        return {name: f"{called(function)} {print_of(function)}" for name, function in self.rules.items()}

    def mask(self, layers: int) -> frozenset[int]:
        """The bypassed layers of a model with this many layers."""
        chosen = self.bypass(layers) if callable(self.bypass) else self.bypass
        return check_layers("attribute", chosen, layers)


@method("lrp", takes=("output",))
@torch.no_grad()
def lrp(
    request: Request,
    *,
    bypass: Iterable[int] | RuleSet = (),
    site: str = "word",
    epsilon: float = 0.0,
    gate: str = "uniform",
    positions: str = "absolute",
    cut: Cuts = (),
) -> list[Attribution]:
    """LRP with the attention of the layers in `bypass` (from 1) held constant; Eq. (1) to (5).

    In a gated MLP `phi(z) u` each factor gets half (`gate="uniform"`). With another grouping u gets a quarter
    ("right") or a third ("flat"), and with the gate held constant it gets all ("constant"). PA-LRP reads
    positions that are rotations: it takes the absolute value of their relevance in every layer, or keeps the
    sign (`positions="signed"`).

    A `cut` holds the "query", "key" or "value" of some tokens constant on the way back, in every layer or in
    those that a third entry lists: `("key", "special")`, `("key", "all", [1, 2])`, or a list of these. The
    "sinks" are tokens that draw over a quarter of a layer's attention, a mean over its heads and queries.
    """
    clf, texts = request.clf, request.texts
    rules = bypass if isinstance(bypass, RuleSet) else RuleSet("lrp", bypass, cut=cut)
    if site != (rules.site or site) or (cut and cut != rules.cut):
        got = f"site {site!r} and cut {shown(cut)} beside a rule set"
        expected = f"those of the set: site {rules.site or site!r}, cut {shown(rules.cut)}"
        raise InputError("attribute", got=got, expected=expected, hint="rule_set makes another set")
    cuts = cuts_of("attribute", rules.cut, clf.card.layers) if rules.cut else []
    mask = rules.mask(clf.card.layers)
    eps = check_rules("attribute", clf, site=site, epsilon=epsilon, gate=gate, positions=positions)
    rotated = site == "word+position" and clf.encoder.wiring.rotary is not None
    choices = {"site": site, "epsilon": eps, "output": request.output, "bypass": tuple(sorted(mask))}
    choices |= {"gate": gate} if clf.encoder.wiring.gated else {}
    choices |= {"positions": positions} if rotated else {}
    choices |= {"cut": tuple(cuts)} if cuts else {}
    choices |= {"shares": rules.shares} if rules.shares != HALVES else {}
    prints = rules.prints if rules.rules else {}
    if prints:  # such a function may read anything of a batch: each text by itself, without padding
        request = replace(request, batch_tokens=1)
    # sinks draw the attention of all queries, also in the last layer
    only_read = all(tokens != "sinks" for _, tokens, _ in cuts)
    how: dict[str, Any] = {"gate": gate, "angles_as_factors": rotated, "only_read": only_read}
    how |= {"shares": rules.shares}
    out: list[Attribution] = [None] * len(texts)  # type: ignore[list-item]
    for rows, ids, attended, further in request.batches(shared=not prints):
        paths = cut_paths(cuts, texts, rows, attended) if cuts else ()
        tape = clf.encoder.forward(ids, attended, cuts=paths, **how, **further)
        logits, chosen = request.explained(rows, tape)
        start = output_gradient(logits, chosen, request.output, multi_label=clf.multi_label)
        start = start if len(rows) == len(ids) else start.unsqueeze(1)  # (R, 1, C) back to one text
        with exchanging(rules.rules) if prints else nullcontext() as own:
            walked, tables = parts_and_angles(tape, start, mask, epsilon=eps)
        if rotated:
            walked["position"] = _of_rotations(walked["word"], tables, positions)
        if own is not None:
            choices["rules"] = tuple((name, prints[name]) for name in prints if name in own.acted)
            if not own.acted:
                got = f"rules for {', '.join(prints)}, none of which {clf.card.name!r} uses"
                hint = "an RMSNorm is not a LayerNorm; a bypassed layer has no softmax"
                raise InputError("attribute", got=got, expected="a rule that acts", hint=hint)
        parts = {key: to_numpy(value.flatten(0, -2)) for key, value in walked.items()}
        for k, i in enumerate(rows):
            of_text = {key: value[k, : len(texts[i])] for key, value in parts.items()}
            known: dict[str, Any] = {"target": chosen[k], "logit": logits[k, chosen[k]], "choices": choices}
            out[i] = request.record(texts[i], scores_at(of_text, site), parts=of_text, **known)
    return out


def cuts_of(operation: str, cut: Cuts, layers: int) -> list[tuple[str, str, tuple[int, ...]]]:
    """Cuts as triples of path, tokens and layers; () means every layer.

    >>> cuts_of("attribute", ("key", "special"), 12)
    [('key', 'special', ())]
    """
    several = [cut] if cut and isinstance(cut[0], str) else list(cut)
    out = []
    for one in several:
        path, tokens, *more = one if isinstance(one, (list, tuple)) and 2 <= len(one) <= 3 else (one, None)
        if path not in PATHS or tokens not in CUT_TOKENS:
            got, hint = f"cut {shown(one)}", 'such as ("key", "special")'
            expected = f"one of {', '.join(PATHS)} at one of {', '.join(CUT_TOKENS)}"
            raise InputError(operation, got=got, expected=expected, hint=hint)
        of_layers = check_layers(operation, more[0], layers) if more and more[0] else ()
        out.append((str(path), str(tokens), tuple(sorted(of_layers))))
    return out


def cut_paths(
    cuts: Sequence[tuple[str, str, tuple[int, ...]]],
    texts: Sequence[EncodedText],
    rows: Sequence[int],
    attended: Tensor,
) -> list[PathCut]:
    """The cuts of a batch, with the tokens (B, T) at which each acts. Texts that share one pass are the
    beginnings of its longest one, so that one's tokens count for all.
    """
    some = [texts[i] for i in rows]
    some = some if len(some) == len(attended) else [max(some, key=len)]
    marks = np.zeros(attended.shape, dtype=bool)
    for row, text in zip(marks, some, strict=True):
        row[: len(text)] = text.special
    special = torch.as_tensor(marks, device=attended.device)
    known = {"special": special, "all": attended.bool(), "sinks": None}
    return [
        PathCut(path, attended.bool(), known[tokens], SINK, frozenset(layers) or None)
        for path, tokens, layers in cuts
    ]


def _register(rules: RuleSet, **entries: Any) -> RuleSet:
    """Make a rule set a method: `lrp` with what the set fixes."""
    fixed = {"bypass": rules, "cut": rules.cut} | ({} if rules.site is None else {"site": rules.site})
    method(rules.name, takes=("output",), fixed=fixed, **entries)(lrp)
    return rules


def rule_set(
    name: str,
    *,
    bypass: Iterable[int] | Callable[[int], Iterable[int]] = (),
    site: str | None = None,
    cut: Cuts = (),
    shares: Shares = HALVES,
    rules: Mapping[str, Callable[..., Any]] | None = None,
    label: str | None = None,
    style: Style | None = None,
) -> RuleSet:
    """Register a rule set as a method on text and return it; `RuleSet` has the arguments.

    With shares `((a, v), (q, k))` the backward pass of attention is `g_A = a g_O V^T`, `g_V = v A^T g_O`,
    `g_Z = softmax'(Z)^T g_A`, `g_Q = q g_Z K`, `g_K = k g_Z^T Q`, with 0 where a path is cut (epsilon 0). A
    bypassed layer has `g_V = A^T g_O` and nothing else. Shares are the same in all other layers.

    `rules` are functions in place of those of `lrp_companion.rules`, wherever the network has the operation.
    Such a function names, among its parameters, what it needs of these values, and gets no others:

    - "linear": `g_z, weight, z, eps, x, bias` for `z = W x + b`; returns `g_x`
    - "elementwise": `g_y, slope, z, y, activation` for `y = activation(z)`, `slope = y / z`; returns `g_z`
    - "layer_norm": `g_y, gamma, sd, y, eps, x, beta`; returns `g_x`
    - "rms_norm": `g_y, gamma, rms, y, eps, x`; returns `g_x`
    - "softmax": `g_a, a, z`; returns `g_z`, of which nothing is left where `a = 0` (there z is -inf)
    - "matmul": `g_o, a, b, o, eps, shares` for `O = A V` and for `Z = Q K^T`; returns `g_a, g_b`
    - "attention_values": `g_o, a, v, o, eps` in bypassed layers; returns `g_v`
    - "gated": `g_h, a, u, h, eps, shares` for `h = a u` under `gate="uniform"`; returns `g_a, g_u`

    `g` is `R` divided by the value, so that the relevance at `x` is `x g_x`; shapes are those of the values.
    Sums, rotations and the mean that a head reads keep theirs; the head's maps take yours. Epsilon acts where
    a function makes use of it. With such functions every text is explained by itself, without padding.

    Its options are those of `lrp`, except those that the set fixes. `label` and `style` are for tables and
    figures.

    Raises
    ------
    InputError : a name that is taken, or has spaces, ":" or ","; a `bypass` that is neither a list of layers
        nor a function; an unknown site; a cut of an unknown path; shares that do not sum to 1; rules for
        another operation, or with other parameters. From a call: a function that returns other shapes,
        numbers that are not finite, or changes its arguments; functions none of which the network uses.

    >>> upper = rule_set("upper-half", bypass=lambda layers: range(layers // 2 + 1, layers + 1))
    >>> sorted(upper.mask(6))
    [4, 5, 6]
    >>> thirds = rule_set("thirds", cut=("key", "special"), shares=((1 / 3, 2 / 3), (0.5, 0.5)))
    >>> from lrp_companion import rules
    >>> gentle = rule_set("gentle", rules={"softmax": lambda g_a, a: 0.5 * rules.softmax(g_a, a)})
    >>> from lrp_companion.registry import forget
    >>> forget("upper-half"), forget("thirds"), forget("gentle")
    (None, None, None)
    """
    if site is not None:
        choose("rule_set", "site", site, SITES)
    if not callable(bypass):
        bypass = check_layers("rule_set", bypass, MOST_LAYERS)
    cuts_of("rule_set", cut, MOST_LAYERS)
    try:
        right = np.shape(shares) == (2, 2) and np.allclose(np.sum(shares, -1), 1)
    except (TypeError, ValueError):  # such as ((1,), (0.5, 0.5))
        right = False
    if not right:
        got, expected = f"shares {shown(shares)}", "two pairs of shares, each summing to 1"
        raise InputError("rule_set", got=got, expected=expected, hint="such as ((0.5, 0.5), (0.5, 0.5))")
    for operation, function in (rules or {}).items():
        takes = taken(choose("rule_set", "rule", operation, [*EXCHANGEABLE]))
        for one in inspect.signature(function).parameters.values():
            by_name = one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
            if not by_name or (one.default is one.empty and one.name not in takes):
                got = f"parameter {one} of {called(function)!r}, a rule for {operation}"
                expected, hint = f"some of {', '.join(takes)}", "name what it needs, give others a default"
                raise InputError("rule_set", got=got, expected=expected, hint=hint)
    of = RuleSet(name, bypass, site, cut, shares, dict(rules or {}))
    return _register(of, label=label, style=style)


attnlrp = _register(RuleSet("attnlrp"))
"""AttnLRP (Achtibat et al. 2024): relevance through values, softmax, queries and keys in every layer."""
cp_lrp = _register(RuleSet("cp-lrp", bypass=lambda layers: range(1, layers + 1)))
"""CP-LRP (Ali et al. 2022): the attention weights of every layer are constants."""
key_cut = _register(RuleSet("key-cut", cut=("key", "special")))
"""AttnLRP with the keys of special tokens held constant in every layer (`book/edge_formula.md`)."""
pa_lrp = _register(RuleSet("pa-lrp", site="word+position"))
"""PA-LRP (Bakish et al. 2025): AttnLRP with the relevance of each position, learned or a rotation, added to
its token.
"""


@torch.no_grad()
def layer_lattice(
    clf: Classifier,
    text: Any,
    *,
    target: int | str | None = None,
    site: str = "word",
    epsilon: float = 0.0,
    gate: str = "uniform",
    output: str = "logit",
    truncate: bool = False,
    position: int | str | None = None,
    memory: int = MEMORY,
) -> Lattice:
    """Relevance of one text or image under all 2**L bypass masks of the layers, from one forward and 2**L - 1
    layer-backwards; of a model of token classes at a `position`, as in `attribute`.

    Row k of `Lattice.scores` has bit l-1 set if layer l is bypassed: row 0 is AttnLRP, the last row CP-LRP.
    `memory` bounds the bytes used besides the model and the tape of one forward: masks are carried back in
    blocks that fit. Up to rounding, results do not depend on it. 12 layers at BERT-base width and 64 tokens
    need less than 2 GiB.

    >>> lattice = layer_lattice(clf, "a film of rare grace")  # doctest: +SKIP
    >>> lattice.scores.shape                                  # doctest: +SKIP
    (4096, 7)
    """
    check_classifier("layer_lattice", clf)
    encoded = clf.encode_one("layer_lattice", text, truncate=truncate, position=position)
    eps = check_rules("layer_lattice", clf, site=site, epsilon=epsilon, gate=gate)
    check_output(output, clf)
    targets = targets_of(clf, target, 1)
    with as_recorded(clf.device, clf.network), torch.no_grad():
        tape = clf.tape(encoded, gate=gate)
        chosen = classes_of(targets, tape.logits)
        start = output_gradient(tape.logits, chosen, output, multi_label=clf.multi_label)
        parts = all_masks(tape, start, epsilon=eps, memory=memory)
    by_mask = {key: finite(clf, to_numpy(value)[:, 0], "scores") for key, value in parts.items()}
    return Lattice(
        tokens=encoded.tokens,
        scores=scores_at(by_mask, site),
        target=int(chosen),
        logit=float(tape.logits[0, chosen]),
        special=encoded.special,
        site=site,
        parts=by_mask,
        label=clf.labels[int(chosen)],
        text=encoded.joined,
        offsets=encoded.offsets,
    )


@dataclass(frozen=True)
class LayerRelevance:
    """Relevance of every token at every level of a network, from the top down.

    Attributes
    ----------
    levels : names of the levels: "output of layer 12" to "output of layer 1", "embeddings" (the input of the
        first layer), "words" or "patches" (only their embeddings, where `attribute` reads by default).
    scores : shape (levels, tokens), in units of the logit.
    lost : relevance lost before each level, (levels,), by cause: "biases", "norms", "softmax",
        "positions" for position and type embeddings, and "cuts" where paths are cut. With epsilon 0 their
        sum is the difference of the `sums`, from the logit down.
    tokens, special : of the text.
    target, logit : the explained class and its logit.
    """

    levels: tuple[str, ...]
    scores: np.ndarray
    tokens: tuple[str, ...]
    special: np.ndarray
    target: int
    logit: float
    lost: dict[str, np.ndarray]

    @property
    def sums(self) -> np.ndarray:
        """Total relevance of each level, (levels,): it changes where a rule does not conserve."""
        return self.scores.sum(1)


@torch.no_grad()
def layer_relevance(
    clf: Classifier,
    text: Any,
    *,
    bypass: Iterable[int] = (),
    cut: Cuts = (),
    target: int | str | None = None,
    epsilon: float = 0.0,
    gate: str = "uniform",
    truncate: bool = False,
    position: int | str | None = None,
) -> LayerRelevance:
    """Relevance `R = a * g` of one text at every layer's output, from one forward and one backward walk.

    Parameters
    ----------
    bypass : the layers, from 1, whose attention is held constant: none is AttnLRP, all is CP-LRP.
    cut : paths held constant, as `lrp` takes them: `("key", "special")` is key cut.
    target : a class or its label; by default the predicted one.
    epsilon : the stabiliser of Eq. (1), (3), (4).
    gate : rule for gated MLPs: "uniform", "right", "flat" or "constant".
    truncate : cut a text beyond the model's length.
    position : the token whose classes are explained, or a word, as in `attribute`.

    Raises
    ------
    InputError : several texts, a layer that does not exist, or options that `attribute` refuses.

    >>> flow = layer_relevance(clf, "a fine film")              # doctest: +SKIP
    >>> flow.levels[0], flow.levels[-1], flow.scores.shape      # doctest: +SKIP
    ('output of layer 12', 'words', (14, 5))
    """
    check_classifier("layer_relevance", clf)
    mask = check_layers("layer_relevance", bypass, clf.card.layers)
    cuts = cuts_of("layer_relevance", cut, clf.card.layers)
    eps = check_rules("layer_relevance", clf, epsilon=epsilon, gate=gate)
    encoded = clf.encode_one("layer_relevance", text, truncate=truncate, position=position)
    levels, scores, lost = [], [], []
    with as_recorded(clf.device, clf.network), metered() as meter:
        attended = torch.ones((1, len(encoded)), device=clf.device)
        tape = clf.tape(encoded, gate=gate, cuts=cut_paths(cuts, [encoded], [0], attended))
        chosen = classes_of(targets_of(clf, target, 1), tape.logits)
        start = output_gradient(tape.logits, chosen, "logit", multi_label=clf.multi_label)
        g = tape.head.backward(start, eps=eps)
        for number in range(len(tape.layers), 0, -1):
            layer = tape.layers[number - 1]
            levels.append(f"output of layer {number}")
            g = g.to(layer.output.device)
            scores.append((layer.output * g).sum(-1))
            lost.append(dict(meter))
            g = layer.backward(g, bypass=number in mask, eps=eps)
        levels += ["embeddings", clf.units]
        g = g.to(tape.embedding.output.device)
        scores.append((tape.embedding.output * g).sum(-1))
        lost.append(dict(meter))
        parts = relevance_parts(tape, tape.embedding.backward(g, eps=eps))
        scores.append(parts.pop("word"))
        others = [part.sum() for part in [torch.zeros_like(scores[-1]), *parts.values()]]
        keeps("positions", torch.stack(others))
        lost.append(dict(meter))
    causes = (*CAUSES, "cuts") if cuts else CAUSES
    by_cause = {cause: np.diff([row[cause] for row in lost], prepend=0.0) for cause in causes}
    by_level = np.stack([to_numpy(level)[0] for level in scores])
    text_of = tuple(encoded.tokens), np.asarray(encoded.special)
    logit = float(tape.logits[0, chosen[0]])
    return LayerRelevance(tuple(levels), by_level, *text_of, int(chosen[0]), logit, by_cause)

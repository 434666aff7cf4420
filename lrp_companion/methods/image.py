"""Methods on images for `LinearAttention`: one score per pixel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_companion.attribution import Attribution
from lrp_companion.checks import choose, whole
from lrp_companion.methods.common import (
    MOST_STEPS,
    Target,
    check_options,
    class_numbers,
    classes_of,
    path_integral,
    to_numpy,
    watch,
)
from lrp_companion.methods.gradient import integrate, plan, quadrature_rows
from lrp_companion.tape.encoder import as_recorded
from lrp_companion.toys.linear_attention import SHARES, LinearAttention, check_shares

Maps = tuple[Tensor, dict[str, Any], dict[str, Tensor], dict[str, Tensor]]
"""Of several images: scores, choices, and parts and details by name."""


def attribute_images(
    net: LinearAttention, images: Any, *, method: str, target: Target = None, **options: Any
) -> list[Attribution]:
    """Explain every image (B, 14, 14) or (B, 196): `lrp_companion.attribute` for images.

    `target` None is the predicted class. Options of another method are refused.
    """
    function = IMAGE_METHODS[method]
    allowed = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    check_options(f"{method!r} on images", options, ["target", *allowed])
    device = next(net.parameters()).device
    with as_recorded(device, net):
        x = net.check_images(images, "attribute")
        x = x.clone() if x.is_inference() else x
        targets = class_numbers(target, len(x), tuple(map(str, range(net.classes))))
        with torch.no_grad():
            logits = torch.cat([net(part) for part in x.split(256)])
        chosen = classes_of(targets, logits)
        maps = function(net, x, chosen, **options)
    return _records(net, method, logits, chosen, maps)


def loo(
    net: LinearAttention, x: Tensor, targets: Tensor, *, batch_images: int = 256, progress: bool | None = None
) -> Maps:
    """Leave-One-Out: the target's logit minus that of the image with one pixel at zero (appendix B.1.1 of the
    paper).
    """
    scores = torch.empty_like(x)
    with torch.no_grad():
        for k in watch(range(len(x)), progress=progress, label="loo"):
            kept = x[k].expand(net.tokens, -1).clone()
            kept.fill_diagonal_(0)
            logit = net(x[k : k + 1])[0, targets[k]]
            scores[k] = torch.cat([logit - net(part)[:, targets[k]] for part in kept.split(batch_images)])
    return scores, {"removal": "zero-pixel"}, {}, {}


def integrated_gradients(
    net: LinearAttention,
    x: Tensor,
    targets: Tensor,
    *,
    n_steps: int = 50,
    baseline: str | np.ndarray | Tensor = "zero",
    batch_images: int = 256,
) -> Maps:
    """Integrated gradients (Sundararajan et al. 2017) by captum, from a black image or from given images.

    `IG_i = (x_i - x'_i) . integral over a in [0,1] of df(x' + a (x - x'))/dx_i`, Gauss-Legendre with
    `n_steps` nodes, exact here from 2 nodes on up to captum's float32 weights, because the logit is a
    polynomial of degree 3 along the path. `baseline` is "zero", one image, or one for each. The convergence
    delta `sum IG - (f(x) - f(x'))` goes into `details`.
    """
    whole("attribute", "n_steps", n_steps, most=MOST_STEPS, hint="try n_steps=50")
    if isinstance(baseline, str):
        start, name = torch.zeros_like(x), choose("attribute", "baseline", baseline, ("zero",))
    else:
        start, name = net.check_images(np.asarray(baseline).reshape(-1, net.tokens)).expand_as(x), "array"
    weights = list(net.parameters())
    wanted = [w.requires_grad for w in weights]
    scores, delta = torch.empty_like(x), x.new_empty(len(x))
    try:
        for w in weights:  # gradients of the pixels only
            w.requires_grad_(False)
        for rows in torch.arange(len(x)).split(max(1, batch_images // n_steps)):
            method = path_integral(net)
            scores[rows], delta[rows] = method.attribute(
                x[rows], start[rows], target=targets[rows], n_steps=n_steps, return_convergence_delta=True
            )
    finally:
        for w, flag in zip(weights, wanted, strict=True):
            w.requires_grad_(flag)
    return scores, {"baseline": name, "n_steps": n_steps}, {}, {"convergence_delta": delta}


def gradient_x_input(net: LinearAttention, x: Tensor, targets: Tensor) -> Maps:
    """Input x gradient: `x_i df/dx_i`, the same from both orders of multiplication up to rounding."""
    scores = torch.empty_like(x)
    for rows in torch.arange(len(x)).split(256):
        with torch.enable_grad():
            leaf = x[rows].detach().clone().requires_grad_(True)
            (g,) = torch.autograd.grad(net(leaf).gather(-1, targets[rows, None]).sum(), leaf)
        scores[rows] = leaf.detach() * g
    return scores, {}, {}, {}


def lrp(
    net: LinearAttention,
    x: Tensor,
    targets: Tensor,
    *,
    shares: str | Sequence[float] | None = None,
    epsilon: float = 0.0,
) -> Maps:
    """LRP with any shares for Q, K and V: three numbers, "left", "right", "flat", "values", or None for the
    net's shares.

    See `LinearAttention.relevance`. With a position embedding, `parts` holds the relevance of pixels and of
    positions.
    """
    if isinstance(shares, str):
        point = SHARES[choose("attribute", "shares", shares, tuple(SHARES))]
    else:
        point = SHARES[net.association] if shares is None else check_shares(shares)
    how: dict[str, Any] = {"shares": point, "epsilon": epsilon}
    parts = [net.relevance_parts(x[rows], targets[rows], **how) for rows in torch.arange(len(x)).split(64)]
    by_part = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    return by_part["pixel"], {"shares": point, "epsilon": epsilon}, by_part, {}


def attnlrp(net: LinearAttention, x: Tensor, targets: Tensor, *, epsilon: float = 0.0) -> Maps:
    """AttnLRP (Achtibat et al. 2024): every matrix product halves the relevance, in the net's order, Eq. (3),
    (4).
    """
    return lrp(net, x, targets, epsilon=epsilon)


def cp_lrp(net: LinearAttention, x: Tensor, targets: Tensor, *, epsilon: float = 0.0) -> Maps:
    """CP-LRP (Ali et al. 2022): queries and keys are constants, the values receive everything."""
    return lrp(net, x, targets, shares="values", epsilon=epsilon)


def mask_gradient(
    net: LinearAttention,
    x: Tensor,
    targets: Tensor,
    *,
    groups: int | str = 1,
    nodes: int | Sequence[float] | None = None,
    seed: int | None = None,
) -> Maps:
    """Gradient of a pixel mask: `df(w * x)/dw_i` at w = 1, which is input x gradient, or its quadrature with
    K groups of pixels.
    """
    group, points, weights = plan(net.tokens, groups, nodes, seed)
    rows = quadrature_rows(group, points)
    scores = torch.empty_like(x)
    for k in range(len(x)):
        gradients = []
        for part in torch.as_tensor(rows).to(x).split(256):
            with torch.enable_grad():
                w = part.clone().requires_grad_(True)
                gradients.append(torch.autograd.grad(net(w * x[k])[:, targets[k]].sum(), w)[0])
        scores[k] = torch.as_tensor(integrate(to_numpy(torch.cat(gradients)), group, points, weights)).to(x)
    return scores, {"groups": groups, "nodes": tuple(points.tolist()), "seed": seed}, {}, {}


def _records(
    net: LinearAttention, method: str, logits: Tensor, targets: Tensor, maps: Maps
) -> list[Attribution]:
    scores, choices, parts, details = maps
    side = round(net.tokens**0.5)
    square = side * side == net.tokens
    names = tuple(f"{i // side},{i % side}" if square else f"0,{i}" for i in range(net.tokens))
    everywhere = {"association": net.association, **choices}
    values = to_numpy(scores)
    extra, floats = ({k: to_numpy(v) for k, v in some.items()} for some in (parts, details))
    return [
        Attribution(
            tokens=names,
            scores=values[k],
            target=int(target),
            logit=float(logits[k, target]),
            special=np.zeros(net.tokens, dtype=bool),
            method=method,
            choices=everywhere,
            parts={key: part[k] for key, part in extra.items()},
            details={"label": str(int(target)), **{key: float(v[k]) for key, v in floats.items()}},
        )
        for k, target in enumerate(targets.tolist())
    ]


IMAGE_METHODS: dict[str, Callable[..., Maps]] = {
    "loo": loo,
    "ig": integrated_gradients,
    "gradient-x-input": gradient_x_input,
    "lrp": lrp,
    "attnlrp": attnlrp,
    "cp-lrp": cp_lrp,
    "mask-gradient": mask_gradient,
}
"""Methods on images by name."""

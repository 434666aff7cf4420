"""The attribution methods on text by name, and the one place where a method is added. No torch.

Labels, styles and costs of the package's methods are here, so that tables and figures of finished runs need
no model. Their functions register with `method` when `lrp_companion.methods` is imported, and your own method
registers in the same way:

>>> @method("constant", label="the same for all", passes=1)
... def constant(clf, texts, targets, *, value=1.0, progress=None):
...     raise NotImplementedError
>>> method_named("constant").options, label_of("constant"), passes_of("constant", {}, 20)
(('progress', 'value'), 'the same for all', 1.0)
>>> forget("constant")
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lrp_companion.checks import InputError, is_name, shown

Passes = float | Callable[[Mapping[str, Any], int], float]
Function = TypeVar("Function", bound=Callable[..., Any])
OUTPUTS = ("every", "logit", "none")
PASSES = 10.0
"""Passes of a method by one gradient: three outputs, a forward and a backward pass each, roughly."""


@dataclass(frozen=True)
class Style:
    """How a method or a path is drawn and labelled; `dash` is a matplotlib line style."""

    label: str
    colour: str
    marker: str
    dash: Any


@dataclass(frozen=True)
class Method:
    """The registry entry of a method on text.

    Attributes
    ----------
    name : as `attribute(method=...)` takes it.
    label : as tables and figures print it.
    passes : about how many forward passes one text costs in a run, all outputs together; a backward pass
        counts as two. A number, or a function of the options and the number of tokens.
    outputs : "every": a run explains logit, margin and probability; "logit": only the logit, because every
        further output would cost the whole method again; "none": the scores do not depend on the output.
    dial : the option that buys more passes; figures join the points of a method along it.
    style : how figures draw it; None takes the next spare style.
    function : explains texts; None until `lrp_companion.methods` is imported.
    """

    name: str
    label: str
    passes: Passes
    outputs: str = "every"
    dial: str | None = None
    style: Style | None = None
    function: Callable[..., Any] | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the method's keyword-only options."""
        parameters = inspect.signature(self.function).parameters.values() if self.function else ()
        return tuple(sorted(p.name for p in parameters if p.kind is p.KEYWORD_ONLY))


def _gradient_passes(options: Mapping[str, Any], tokens: int) -> float:
    groups = options.get("groups", 1)
    return 3.0 * (tokens if groups == "all" else groups)


def _hybrid_passes(options: Mapping[str, Any], tokens: int) -> float:
    return _gradient_passes(options, tokens) + options.get("exact", 4)


def _described() -> dict[str, Method]:
    """The methods of this package: label, passes, colour, marker, dash, and what differs from the default."""
    rows: tuple[tuple[str, str, Passes, str, str, Any, dict[str, Any]], ...] = (
        ("loo", "LOO", lambda _, tokens: tokens + 1.0, "#1b1b1b", "o", "-", {}),
        ("ig", "IG", lambda options, _: 3.0 * options.get("n_steps", 50), "#946500", "^", (0, (6, 2)),
         {"outputs": "logit", "dial": "n_steps"}),
        ("gradient-x-input", "gradient x input", PASSES, "#8a4b3d", "v", (0, (6, 2, 1, 2)), {}),
        ("rollout", "rollout", PASSES, "#6a6a6a", "s", (0, (1, 1.5)), {"outputs": "none"}),
        ("attnlrp", "AttnLRP", PASSES, "#0067a5", "D", "-", {}),
        ("cp-lrp", "CP-LRP", PASSES, "#c44c00", "X", (0, (3, 1.5)), {}),
        ("pa-lrp", "PA-LRP", PASSES, "#00755e", "P", (0, (4, 1.5, 1, 1.5)), {}),
        ("lrp", "LRP", PASSES, "#6b4fa0", "p", (0, (2, 1)), {}),
        ("mask-gradient", "mask gradient", _gradient_passes, "#a8216b", "*", (0, (8, 2)),
         {"outputs": "logit", "dial": "groups"}),
        ("hybrid", "hybrid", _hybrid_passes, "#3d6b1f", "h", (0, (5, 1, 1, 1, 1, 1)),
         {"outputs": "logit", "dial": "exact"}),
        ("sampled-loo", "sampled LOO", lambda options, _: float(options.get("budget", 8)), "#30616b", "d",
         (0, (1, 3)), {"outputs": "logit", "dial": "budget"}),
    )  # fmt: skip
    return {
        name: Method(name, label, passes, style=Style(label, colour, marker, dash), **more)
        for name, label, passes, colour, marker, dash, more in rows
    }


METHODS = _described()
"""Every method by name, in the order in which they are listed."""
TEXT_METHODS: dict[str, Callable[..., Any]] = {}
IMAGE_METHODS: dict[str, Callable[..., Any]] = {}
"""Functions by name, on text and on images; filled when `lrp_companion.methods` is imported."""


def method(
    name: str,
    *,
    label: str | None = None,
    passes: Passes | None = None,
    outputs: str | None = None,
    dial: str | None = None,
    style: Style | None = None,
) -> Callable[[Function], Function]:
    """Register the decorated function as a method on text, for `attribute`, runs, tables and figures.

    The function takes a `Classifier`, encoded texts and one target (or None) for each, its options as
    keyword-only parameters, and returns one `Attribution` per text. `Method` has the other arguments;
    `passes` must be given.

    Raises
    ------
    InputError : a name that is taken or is not a plain word; no `passes`; an unknown choice of `outputs`.
    """
    described = METHODS.get(name) if isinstance(name, str) else None
    if described is None:
        if not is_name(name):
            expected, hint = (
                "letters and digits, joined by -, _ or .",
                "such as my-method",
            )
            raise InputError("method", got=f"the name {shown(name)}", expected=expected, hint=hint)
        if passes is None:
            hint = "pass a number, or a function of options and tokens"
            raise InputError(
                "method", got=f"{name!r} without passes", expected="what one text costs", hint=hint
            )
        described = Method(name, label or name, passes, outputs or "every", dial, style)
        if described.outputs not in OUTPUTS:
            hint = "see Method"
            raise InputError(
                "method", got=f"outputs {outputs!r}", expected=f"one of {', '.join(OUTPUTS)}", hint=hint
            )
    if name in TEXT_METHODS:
        hint = "choose another name, or forget the first with lrp_companion.registry.forget"
        raise InputError(
            "method", got=f"{name!r} twice", expected="a different name for each method", hint=hint
        )

    def register(function: Function) -> Function:
        if name in _described() and not function.__module__.startswith("lrp_companion."):
            hint = "take another name"
            taken = f"{name!r}, a method of the package"
            raise InputError("method", got=taken, expected="a new name", hint=hint)
        METHODS[name] = replace(described, function=function)
        TEXT_METHODS[name] = function
        in_order = {listed: TEXT_METHODS[listed] for listed in METHODS if listed in TEXT_METHODS}
        TEXT_METHODS.clear()
        TEXT_METHODS.update(in_order)
        return function

    return register


def image_method(name: str) -> Callable[[Function], Function]:
    """Register the decorated function as a method on images, for `LinearAttention`."""

    def register(function: Function) -> Function:
        IMAGE_METHODS[name] = function
        return function

    return register


def forget(name: str) -> None:
    """Remove a method from the registry, but keep the package's own labels and styles."""
    TEXT_METHODS.pop(name, None)
    if name in (described := _described()):
        METHODS[name] = described[name]
    else:
        METHODS.pop(name, None)


def method_named(name: str) -> Method:
    """Return the entry of a method; for an unregistered one, only its name.

    >>> method_named("cp-lrp").label, method_named("mine").label
    ('CP-LRP', 'mine')
    """
    return METHODS.get(name) or Method(name, name, float("nan"))


def label_of(name: str) -> str:
    """A method's name as tables and figures print it."""
    return method_named(name).label


def passes_of(name: str, options: Mapping[str, Any], tokens: int) -> float:
    """Return the approximate cost of a method on a text in forward passes; a backward pass counts as two.

    >>> passes_of("ig", {"n_steps": 50}, 20), passes_of("mask-gradient", {"groups": "all"}, 20)
    (150.0, 60.0)

    Raises
    ------
    InputError : a method that is not registered.
    """
    if name not in METHODS:
        hint = "register it with lrp_companion.method"
        raise InputError(
            "passes_of", got=f"method {name!r}", expected=f"one of {', '.join(METHODS)}", hint=hint
        )
    passes = METHODS[name].passes
    return float(passes(options, tokens)) if callable(passes) else float(passes)

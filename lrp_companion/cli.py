"""The `lrp-companion` command: thin wrappers over the package.

Bad input gives one line on standard error and exit code 2; any other fault gives exit code 3.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lrp_companion.checks import InputError, as_path, whole
from lrp_companion.cli_options import parser
from lrp_companion.terminal import (
    BROKEN,
    DONE,
    check_output,
    complain,
    ended,
    harmless_json,
    printable,
    quoted,
    say,
    standard_input,
    visible,
)

MNIST_TASKS = ("mnist", "mnist-grid")
TEXT_OPTIONS = (
    "model",
    "methods",
    "masks",
    "n_steps",
    "removals",
    "targets",
    "loo_from",
    "keep_maps",
    "curves",
    "dtype",
)
ANSWER_OPTIONS = ("model", "methods", "n_steps", "removals", "keep_maps", "dtype")
OPTIONS = (
    "target", "contrast", "site", "output", "epsilon", "bypass", "gate",
    "positions", "removal", "baseline", "n_steps", "groups", "nodes", "exact", "correct", "budget",
    "permutations", "seed",
)  # fmt: skip


def _explain(args: argparse.Namespace) -> None:
    from lrp_companion.loading.places import locate

    locate(args.model)  # a wrong name is refused before torch is imported
    from lrp_companion.loading.classifier import load_classifier
    from lrp_companion.methods import attribute
    from lrp_companion.show.export import ending
    from lrp_companion.show.tokens import completion_table, said, terminal_table

    check_output()
    text = standard_input("explain") if args.text == "-" else args.text
    if not text.strip():
        expected, hint = "a text with at least one word", "put the text in quotes"
        raise InputError("explain", got="an empty text", expected=expected, hint=hint)
    asked = {name: getattr(args, name) for name in OPTIONS}
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    for name, other in (("completion", "write"), ("position", "word")):
        options |= _either(args, "explain", name, other)
    if args.truncate:
        options["truncate"] = True
    if args.out is not None:
        args.out = str(as_path("explain", "--out", args.out))
        ending("explain", args.out)
    clf = load_classifier(args.model, device=args.device, dtype=args.dtype)
    if clf.reads_images and args.pair is not None:
        got, hint = "--pair with a model that reads images", "leave --pair out"
        raise InputError("explain", got=got, expected="one image file", hint=hint)
    answers = "completion" in options
    if not answers:
        options |= {name: _class(clf, options[name]) for name in ("target", "contrast") if name in options}
    (given,) = _as_read(clf, [text], operation="explain")
    records = attribute(
        clf, given if args.pair is None else (given, args.pair), method=args.method, **options
    )
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
    table = completion_table if answers else terminal_table
    say(table(record, colour=colour))


def _either(args: argparse.Namespace, operation: str, name: str, other: str) -> dict[str, Any]:
    """The one of two options that was given, by the first's name; a number and a text never stand for each
    other.
    """
    given = [one for one in (getattr(args, name), getattr(args, other)) if one is not None]
    if len(given) > 1:
        got, hint = f"--{name} and --{other}", "leave one of them out"
        raise InputError(operation, got=got, expected="one of them", hint=hint)
    return {name: given[0]} if given else {}


def _class(clf: Any, text: str) -> int | str:
    """A class as the command names it: a label or a language model's token, or else the number of a class."""
    from lrp_companion.sources.dataset import whole_number

    if text in clf.labels:
        return text
    if not clf.encoder.wiring.of_vocabulary and (number := whole_number(text)) is not None:
        spelled = [k for k, label in enumerate(clf.labels) if whole_number(label) == number]
        if len(spelled) > 1:
            several = ", ".join(f"{k} ({clf.labels[k]!r})" for k in spelled[:10])
            got, expected = f"class {text!r}, which may be class {several}", "one class"
            raise InputError(
                "explain", got=got, expected=expected, hint="write the label as the model has it"
            )
        if spelled:
            return spelled[0]
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text):
        return text
    if clf.encoder.wiring.of_vocabulary:
        with suppress(InputError):
            token = clf.class_of(text)
            if token != clf.tokenizer.unk_token_id:
                return token
    return int(text)


def _as_read(clf: Any, given: Sequence[str], *, operation: str) -> list[Any]:
    """What the model reads: the texts, or the pixels of the files that they name."""
    if not clf.reads_images:
        return list(given)
    from lrp_companion.sources.image_file import read_image

    channels = clf.encoder.wiring.patches.channels
    return [read_image(file, channels=channels, operation=operation) for file in given]


def _check(args: argparse.Namespace) -> int:
    from lrp_companion.loading.places import locate

    locate(args.model)
    from lrp_companion.loading.classifier import load_classifier
    from lrp_companion.model_check import check
    from lrp_companion.show.export import ending, write

    check_output()
    if args.out is not None:
        args.out = str(as_path("check", "--out", args.out))
        ending("check", args.out, (".html",))
    texts = args.texts
    if texts == ["-"]:
        texts = [line for line in standard_input("check").split("\n") if line.strip()]
    clf = load_classifier(args.model, device=args.device, dtype=args.dtype)
    given = _as_read(clf, texts, operation="check")
    position = _either(args, "check", "position", "word")
    done = check(clf, given, truncate=args.truncate, **position)
    if args.out is not None:
        write("check", args.out, done.to_html().encode())
    say(harmless_json(done.to_json()) if args.json else printable(str(done)))
    return BROKEN if done.broken else DONE


def _sources(args: argparse.Namespace) -> None:
    from lrp_companion.sources import base_model, reachable

    check_output()
    if args.fetch_base:
        base_model.fetch()
    rows = reachable(data_dir=args.data_dir, check_hub=args.hub)
    if args.json:
        say(json.dumps(rows))
        return
    widths = [max(len(str(row[key])) for row in rows) for key in ("name", "state")]
    for row in rows:
        say(visible(f"{row['name']:<{widths[0]}}  {row['state']:<{widths[1]}}  {row['detail']}"))


def _run(args: argparse.Namespace) -> None:
    _check_task(args)
    from lrp_companion.lab.execute import device_of, execute, world

    if not args.out.strip():
        hint = "name a folder, such as --out runs/first"
        raise InputError("run", got="an empty --out", expected="a folder", hint=hint)
    args.out = str(as_path("run", "--out", args.out))
    try:
        state = world(args.device)
        make_jobs = _mnist_jobs if args.task in MNIST_TASKS else _text_jobs
        jobs = make_jobs(args, device_of(args.device, state))
        progress = False if args.quiet else None
        manifest = execute(jobs, args.out, resume=args.resume, progress=progress, state=state)
    except KeyboardInterrupt:
        kept = f"finished jobs are kept in {args.out}; the same command resumes the run"
        complain(f"run: stopped; {kept}")
        raise
    if manifest:
        seconds = sum(session["seconds"] or 0 for session in manifest["sessions"])
        examples = f"{manifest['examples']} examples of {manifest['data']}"
        say(visible(f"run {manifest['key']}: {examples}, {seconds:.0f} s in {args.out}"))


def _check_task(args: argparse.Namespace) -> None:
    """Refuse missing data or a missing model before torch is imported, which takes seconds."""
    from lrp_companion.loading.places import locate
    from lrp_companion.sources import is_own

    tasks = (*MNIST_TASKS, "sst2", "imdb")
    own_texts = args.task not in tasks and is_own(args.task)
    if not own_texts and args.task not in tasks:
        expected = f"one of {', '.join(tasks)}, or the path of a file or folder with your texts"
        raise InputError("run", got=f"data {args.task!r}", expected=expected, hint="check the path")
    if own_texts and not os.path.exists(os.path.expanduser(args.task)):
        got, hint = f"{args.task!r}, which does not exist", "check the path"
        raise InputError("run", got=got, expected="a file or folder with your texts", hint=hint)
    for name, other in (("completion", "write"), ("completion", "pair"), ("write", "pair")):
        _either(args, "run", name, other)
    for name in ("text", "pair", "label", "completion", "write"):
        if not own_texts and getattr(args, name) is not None:
            got, expected = f"--{name} for {args.task}", f"--{name} only with your own data"
            raise InputError("run", got=got, expected=expected, hint="leave it out")
    if args.model is not None and args.task not in MNIST_TASKS:
        locate(args.model)


def _chosen(args: argparse.Namespace, allowed: Sequence[str]) -> dict[str, Any]:
    """Return the given options; refuse those that do not apply to this task."""
    only = (*TEXT_OPTIONS, "nets")
    given = {name: getattr(args, name) for name in only if getattr(args, name) is not None}
    for name in given:
        if name not in allowed:
            got = f"--{name.replace('_', '-')} for {args.task}"
            listed = ", ".join("--" + option.replace("_", "-") for option in allowed)
            raise InputError("run", got=got, expected=f"only {listed}", hint="leave it out")
    return given


def _text_jobs(args: argparse.Namespace, device: str) -> Any:
    answers = args.completion is not None or args.write is not None
    options = _chosen(args, ANSWER_OPTIONS if answers else TEXT_OPTIONS)
    from lrp_companion.lab.answer_jobs import AnswerJobs
    from lrp_companion.lab.review_jobs import TextJobs
    from lrp_companion.loading.classifier import load_classifier
    from lrp_companion.sources import load_dataset

    columns = {"text": args.text, "pair": args.completion or args.pair, "label": args.label}
    data = load_dataset(args.task, split=args.split, source=args.source, data_dir=args.data_dir, **columns)
    model, dtype = options.pop("model", "companion"), options.pop("dtype", "float32")
    if answers:
        removal, *more = options.pop("removals", ["attention-mask"])
        if more:
            got, hint = f"--removals {', '.join([removal, *more])}", "begin a run for each"
            raise InputError("run", got=got, expected="one removal for answers", hint=hint)
        options |= {"completion": args.write, "removal": removal}
    clf = load_classifier(model, device=device, dtype=dtype)
    return (AnswerJobs if answers else TextJobs)(clf, data, limit=args.limit, seed=args.seed, **options)


def _mnist_jobs(args: argparse.Namespace, device: str) -> Any:
    options = _chosen(args, ("nets",) if args.task == "mnist-grid" else ("model", "methods", "nets"))
    from lrp_companion.lab.digit_jobs import MnistGridJobs, MnistJobs
    from lrp_companion.sources import load_dataset

    train, test = (
        load_dataset("mnist", split=split, source=args.source, data_dir=args.data_dir)
        for split in ("train", args.split or "test")
    )
    options |= {"limit": args.limit, "seed": args.seed, "device": device}
    if args.task == "mnist-grid":
        return MnistGridJobs(train, test, **options)
    return MnistJobs(train, test, variant=options.pop("model", "plain"), **options)


def _report(args: argparse.Namespace) -> None:
    from lrp_companion.lab.load import load_runs
    from lrp_companion.lab.paper.printed import report
    from lrp_companion.lab.paper.report import report_rows, write_figures, write_report

    check_output()
    for option in ("out", "figures"):
        if getattr(args, option) is not None:
            setattr(args, option, str(as_path("report", f"--{option}", getattr(args, option))))
    runs = load_runs(args.folders)
    files = [] if args.figures is None else write_figures(runs, args.figures)
    written = [] if args.out is None else write_report(runs, args.out)
    if args.json:
        say(harmless_json(json.dumps(report_rows(runs), ensure_ascii=False)))
        return
    say(printable(report(runs)), end="")
    if files:
        names = ", ".join(file.name for file in files)
        say("\n" + visible(f"Figures: {names} in {args.figures}"))
    if written:
        names = ", ".join(file.name for file in written)
        say("\n" + visible(f"Files: {names} in {args.out}"))


def _export_page(args: argparse.Namespace) -> None:
    from lrp_companion.loading.places import locate

    locate(args.model)
    from lrp_companion.loading.classifier import load_classifier
    from lrp_companion.page.live_page import export_page

    check_output()
    whole("export-page", "--max-tokens", args.max_tokens, least=3, hint="leave it out for 128")
    options = {"examples": args.example, "title": args.title, "max_tokens": args.max_tokens}
    page = export_page(load_classifier(args.model), as_path("export-page", "--out", args.out), **options)
    size = sum(path.stat().st_size for path in page.parent.rglob("*") if path.is_file())
    say(visible(f"{page}: opens in a browser, from disk or any static host ({size / 1e6:.0f} MB in all)"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code, as `terminal.EXIT_CODES` says."""
    return ended(lambda: _command(arguments))


def _command(arguments: Sequence[str] | None) -> int:
    args = parser().parse_args(arguments)
    if args.command == "run":
        _run(args)
    elif args.command == "check":
        return _check(args)
    else:
        plain = {"explain": _explain, "sources": _sources, "report": _report, "export-page": _export_page}
        plain[args.command](args)
    return DONE


if __name__ == "__main__":
    sys.exit(main())

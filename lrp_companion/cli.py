"""The `lrp-companion` command: thin wrappers over the package.

Bad input gives one line on standard error and exit code 2, a fault that is none of the input's exit code 3.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from lrp_companion import __version__
from lrp_companion.paths import as_path
from lrp_companion.schema import REMOVALS, SITES, TARGET_CHOICES, InputError, whole
from lrp_companion.terminal import (
    EXIT_CODES,
    check_output,
    complain,
    ended,
    harmless_json,
    printable,
    say,
    visible,
)

MNIST_TASKS = ("mnist", "mnist-grid")
MODEL = "an embedded model, a folder (also of a PEFT adapter), or a hub id (default: companion)"
TEXT_OPTIONS = (
    "model", "methods", "masks", "n_steps", "removals", "targets", "loo_from", "keep_maps", "dtype",
)  # fmt: skip
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
            raise argparse.ArgumentTypeError(f"{part.strip()!r}, a range without layers; turn it round")
        out += range(int(first), int(last if dash else first) + 1)
    return out


def _is_layer(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) > 0


def _parser() -> argparse.ArgumentParser:
    text = "Explain text classifiers by LRP, and compare with Leave-One-Out."
    parser = _OneLineParser(prog="lrp-companion", description=text, epilog=EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"lrp-companion {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_OneLineParser)
    _explain_options(commands.add_parser("explain", help="one score per token of a text").add_argument)
    text = "measure a whole data set; the same command again goes on where it stopped"
    _run_options(commands.add_parser("run", help=text).add_argument)
    text = "tables, figures and claims of runs, with the paper's numbers beside"
    _report_options(commands.add_parser("report", help=text).add_argument)
    text = "what data and models this machine can reach"
    _sources_options(commands.add_parser("sources", help=text).add_argument)
    return parser


def _explain_options(add: Callable[..., Any]) -> None:
    add("text", help='the text, or "-" to read it from standard input')
    text = "attnlrp (default), cp-lrp, pa-lrp, lrp, loo, ig, gradient-x-input, rollout, mask-gradient, hybrid"
    add("--method", default="attnlrp", help=f"{text}, sampled-loo")
    add("--model", default="companion", help=MODEL)
    add("--device", default="cpu")
    add("--dtype", default="float32", help="float32, float64 or bfloat16")
    add("--target", type=_class, help="class to explain, its number from 0 or its label (default: predicted)")
    text = "a second text, where the model reads pairs"
    add("--pair", metavar="TEXT", help=text)
    add("--site", choices=SITES)
    add("--output", choices=TARGET_CHOICES, help="what is explained: logit, margin or probability")
    add("--epsilon", type=float)
    text = "layers whose attention is held constant, from 1, such as 1,2,7-12 (method lrp)"
    add("--bypass", type=_layers, metavar="LAYERS", help=text)
    add("--removal", choices=REMOVALS)
    add("--baseline", help="pad-token, mask-token or zero (method ig)")
    add("--n-steps", type=int, help="quadrature nodes (method ig)")
    text = 'groups of tokens, a number or "all" (methods mask-gradient, hybrid)'
    add("--groups", type=_count_or_all, help=text)
    text = "how many quadrature nodes each token's path has, or which, such as 0.2,1"
    add("--nodes", type=_nodes, help=f"{text} (methods mask-gradient, hybrid)")
    add("--exact", type=int, help="tokens with exact LOO (method hybrid)")
    text = "what the others learn from these: none, scale, shift or line (method hybrid)"
    add("--correct", help=text)
    add("--budget", type=int, help="tokens drawn at random (method sampled-loo)")
    text = "of random groups or tokens (methods mask-gradient, hybrid, sampled-loo)"
    add("--seed", type=int, help=text)
    add("--truncate", action="store_true", help="cut a text beyond the model's length")
    add("--json", action="store_true", help="print the record as JSON")
    text = "also save a heat map as .html, .svg, .png, .pdf or .tex, or the record as .json"
    add("--out", metavar="FILE", help=text)
    text = "no colours (also when NO_COLOR is set or the output is no terminal)"
    add("--no-colour", action="store_true", help=text)


def _run_options(add: Callable[..., Any]) -> None:
    text = "sst2, imdb, mnist or mnist-grid; or own texts: a .csv, .tsv, .jsonl or .parquet file, or a folder"
    add("task", metavar="DATA", help=text)
    add("--text", metavar="COLUMN", help="own data: the column of the texts")
    add("--pair", metavar="COLUMN", help="own data: the second text, where the model reads pairs")
    text = "own data: the column of labels, names or class numbers (default: unlabelled)"
    add("--label", metavar="COLUMN", help=text)
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
    text = "also keep each method's map of the logit, a number per token and embedding part (no text)"
    add("--keep-maps", action="store_const", const=True, help=text)
    text = "mnist: how many nets to train, with the seeds 0, 1, ... (default: 5)"
    add("--nets", type=int, help=text)
    add("--limit", type=int, help="a random sample of so many examples (default: all)")
    add("--seed", type=int, default=0, help="of the sample (default: 0)")
    add("--source", choices=("auto", "embedded", "folder", "hub"), default="auto")
    add("--data-dir", help=DATA_DIR)
    add("--split", help="default: validation of sst2, test of imdb and mnist")
    add("--device", default="cpu")
    add("--dtype", help="float32 (default), float64 or bfloat16; mnist is always float64")
    text = "processes on this machine, one per GPU with --device cuda"
    add("--processes", type=int, default=1, help=text)
    add("--resume", action="store_true", help="resume an existing run; never start one")
    add("--quiet", action="store_true", help="no progress")


def _report_options(add: Callable[..., Any]) -> None:
    text = "the folder of a run, or a folder of such folders"
    add("folders", nargs="+", metavar="DIR", help=text)
    add("--json", action="store_true", help="print the rows as JSON")
    text = "also write Figure 2 of each run there, as PNG and PDF"
    add("--figures", metavar="FOLDER", help=text)
    text = "also write everything there: the text, figures as PNG and PDF, tables as CSV"
    add("--out", metavar="FOLDER", help=text)


def _sources_options(add: Callable[..., Any]) -> None:
    add("--data-dir", help=DATA_DIR)
    add("--hub", action="store_true", help="also ask whether the hub answers")
    add("--json", action="store_true")


OPTIONS = (
    "target", "site", "output", "epsilon", "bypass", "removal", "baseline", "n_steps", "groups", "nodes",
    "exact", "correct", "budget", "seed",
)  # fmt: skip


def _explain(args: argparse.Namespace) -> None:
    from lrp_companion.models.places import locate

    locate(args.model)  # a name that is none is told before torch is imported
    from lrp_companion.methods import attribute
    from lrp_companion.models.pretrained import load_classifier
    from lrp_companion.views.export import ending
    from lrp_companion.views.tokens import terminal_table

    check_output()
    text = _standard_input() if args.text == "-" else args.text
    if not text.strip():
        expected, hint = "a text with at least one word", "put the text in quotes"
        raise InputError("explain", got="an empty text", expected=expected, hint=hint)
    given = {name: getattr(args, name) for name in OPTIONS}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if args.truncate:
        options["truncate"] = True
    if args.out is not None:
        ending("explain", args.out)
    clf = load_classifier(args.model, device=args.device, dtype=args.dtype)
    (record,) = attribute(
        clf, text if args.pair is None else (text, args.pair), method=args.method, **options
    )
    if args.out is not None:
        record.save(args.out)
    if args.json:
        say(harmless_json(record.to_json()))
        return
    plain = args.no_colour or os.environ.get("NO_COLOR")
    colour = not plain and (sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR")))
    choices = ", ".join(f"{k} {v}" for k, v in record.choices.items())
    model = f"{clf.card.name} ({clf.card.source}, {clf.card.layers} layers)"
    say(visible(f"{model}: {record.details['label']}, logit {record.logit:.3f}"))
    say(visible(f"{record.method} ({choices})"))
    say(terminal_table(record, colour=colour))


def _standard_input() -> str:
    """The text that is piped in."""
    got, hint = "", "pipe a text in, or write it in quotes"
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        got, hint = "a standard input that is no UTF-8", "convert the text to UTF-8"
    except (AttributeError, OSError, ValueError):
        got = "a standard input that cannot be read"
    raise InputError("explain", got=got, expected="a text", hint=hint)


def _sources(args: argparse.Namespace) -> None:
    from lrp_companion.sources import reachable

    check_output()
    rows = reachable(data_dir=args.data_dir, check_hub=args.hub)
    if args.json:
        say(json.dumps(rows))
        return
    widths = [max(len(str(row[key])) for row in rows) for key in ("name", "state")]
    for row in rows:
        say(visible(f"{row['name']:<{widths[0]}}  {row['state']:<{widths[1]}}  {row['detail']}"))


def _count_or_all(text: str) -> int | str:
    return text if text == "all" else int(text)


def _class(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def _nodes(text: str) -> int | list[float]:
    return [float(node) for node in text.split(",")] if "," in text else int(text)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _run(args: argparse.Namespace, given: Sequence[str]) -> None:
    _check_task(args)
    from lrp_companion.runs.execute import device_of, execute, launch, world

    whole("run", "--processes", args.processes, hint="leave it out for one")
    if not args.out.strip():
        hint = "name one that can be made, such as --out runs/first"
        raise InputError("run", got="an empty --out", expected="a folder", hint=hint)
    args.out = str(as_path("run", "--out", args.out))
    try:
        if args.processes > 1 and "WORLD_SIZE" not in os.environ:
            launch(args.processes, given)
            return
        state = world(args.device)
        make_jobs = _mnist_jobs if args.task in MNIST_TASKS else _text_jobs
        jobs = make_jobs(args, device_of(args.device, state))
        progress = False if args.quiet else None
        manifest = execute(jobs, args.out, resume=args.resume, progress=progress, state=state)
    except KeyboardInterrupt:
        kept = f"finished jobs are kept in {args.out}, the same command goes on from there"
        complain(f"run: stopped; {kept}")
        raise
    if manifest:
        seconds = sum(session["seconds"] or 0 for session in manifest["sessions"])
        examples = f"{manifest['examples']} examples of {manifest['data']}"
        say(visible(f"run {manifest['key']}: {examples}, {seconds:.0f} s in {args.out}"))


def _check_task(args: argparse.Namespace) -> None:
    """Refuse data and a model that are not there, before torch is imported: that takes seconds."""
    from lrp_companion.models.places import locate
    from lrp_companion.sources import is_own

    tasks = (*MNIST_TASKS, "sst2", "imdb")
    own_texts = args.task not in tasks and is_own(args.task)
    if not own_texts and args.task not in tasks:
        expected = f"one of {', '.join(tasks)}, or the path of a file or folder with own texts"
        raise InputError("run", got=f"data {args.task!r}", expected=expected, hint="check the path")
    if own_texts and not os.path.exists(os.path.expanduser(args.task)):
        got, hint = f"{args.task!r}, which does not exist", "check the path"
        raise InputError("run", got=got, expected="a file or folder with own texts", hint=hint)
    for name in ("text", "pair", "label"):
        if not own_texts and getattr(args, name) is not None:
            got, expected = f"--{name} for {args.task}", f"--{name} only with own data"
            raise InputError("run", got=got, expected=expected, hint="leave it out")
    if args.model is not None and args.task not in MNIST_TASKS:
        locate(args.model)


def _chosen(args: argparse.Namespace, allowed: Sequence[str]) -> dict[str, Any]:
    """Options that were given; those that this task has no use for are refused."""
    only = (*TEXT_OPTIONS, "nets")
    given = {name: getattr(args, name) for name in only if getattr(args, name) is not None}
    for name in given:
        if name not in allowed:
            got = f"--{name.replace('_', '-')} for {args.task}"
            listed = ", ".join("--" + option.replace("_", "-") for option in allowed)
            raise InputError("run", got=got, expected=f"of these only {listed}", hint="leave it out")
    return given


def _text_jobs(args: argparse.Namespace, device: str) -> Any:
    options = _chosen(args, TEXT_OPTIONS)
    from lrp_companion.models.pretrained import load_classifier
    from lrp_companion.runs.review_jobs import TextJobs
    from lrp_companion.sources import load_dataset

    columns = {"text": args.text, "pair": args.pair, "label": args.label}
    data = load_dataset(args.task, split=args.split, source=args.source, data_dir=args.data_dir, **columns)
    model, dtype = options.pop("model", "companion"), options.pop("dtype", "float32")
    clf = load_classifier(model, device=device, dtype=dtype)
    return TextJobs(clf, data, limit=args.limit, seed=args.seed, **options)


def _mnist_jobs(args: argparse.Namespace, device: str) -> Any:
    options = _chosen(args, ("nets",) if args.task == "mnist-grid" else ("model", "methods", "nets"))
    from lrp_companion.runs.digit_jobs import MnistJobs
    from lrp_companion.runs.digit_variant_jobs import MnistGridJobs
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
    from lrp_companion.analysis.report import report_rows
    from lrp_companion.runs.load import load_runs
    from lrp_companion.views.paper_tables import report
    from lrp_companion.views.report_files import write_figures, write_report

    check_output()
    runs = load_runs(args.folders)
    files = write_figures(runs, args.figures) if args.figures else []
    written = write_report(runs, args.out) if args.out else []
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code, as `terminal.EXIT_CODES` says."""
    return ended(lambda: _command(arguments))


def _command(arguments: Sequence[str] | None) -> None:
    args = _parser().parse_args(arguments)
    if args.command == "run":
        _run(args, list(sys.argv[1:] if arguments is None else arguments))
    else:
        {"explain": _explain, "sources": _sources, "report": _report}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())

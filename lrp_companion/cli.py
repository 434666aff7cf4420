"""The `lrp-companion` command: thin wrappers over the package.

Bad input gives one line on standard error and exit code 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from lrp_companion import __version__
from lrp_companion.schema import (
    REMOVALS,
    SITES,
    TARGET_CHOICES,
    CompanionError,
    InputError,
    whole,
)

MODEL = "an embedded model, a folder, or a hub id (default: companion)"
DATA_DIR = "folder with sst2/, imdb/ and mnist/ (default: LRP_COMPANION_DATA)"


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(
            self.prog, got=message, expected="the options of --help", hint=f"see {self.prog} --help"
        )


def _layers(text: str) -> list[int]:
    """Layers such as `1,2,7-12`."""
    out: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        out += range(int(first), int(last if dash else first) + 1)
    return out


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(
        prog="lrp-companion", description="Explain text classifiers by LRP, and compare with Leave-One-Out."
    )
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
    add("--target", type=int, help="class to explain (default: the predicted one)")
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
    add("task", choices=("mnist", "mnist-grid", "sst2", "imdb"))
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


def _sources_options(add: Callable[..., Any]) -> None:
    add("--data-dir", help=DATA_DIR)
    add("--hub", action="store_true", help="also ask whether the hub answers")
    add("--json", action="store_true")


OPTIONS = (
    "target", "site", "output", "epsilon", "bypass", "removal", "baseline", "n_steps", "groups", "nodes",
    "exact", "correct", "budget", "seed",
)  # fmt: skip


def _explain(args: argparse.Namespace) -> None:
    from lrp_companion.methods import attribute
    from lrp_companion.models.pretrained import load_classifier
    from lrp_companion.views.export import ending
    from lrp_companion.views.tokens import terminal_table

    text = sys.stdin.read() if args.text == "-" else args.text
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
    (record,) = attribute(clf, text, method=args.method, **options)
    if args.out is not None:
        record.save(args.out)
    if args.json:
        print(record.to_json())
        return
    plain = args.no_colour or os.environ.get("NO_COLOR")
    colour = not plain and (sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR")))
    choices = ", ".join(f"{k} {v}" for k, v in record.choices.items())
    model = f"{clf.card.name} ({clf.card.source}, {clf.card.layers} layers)"
    print(f"{model}: {record.details['label']}, logit {record.logit:.3f}")
    print(f"{record.method} ({choices})")
    print(terminal_table(record, colour=colour))


def _sources(args: argparse.Namespace) -> None:
    from lrp_companion.sources import reachable

    rows = reachable(data_dir=args.data_dir, check_hub=args.hub)
    if args.json:
        print(json.dumps(rows))
        return
    widths = [max(len(str(row[key])) for row in rows) for key in ("name", "state")]
    for row in rows:
        print(f"{row['name']:<{widths[0]}}  {row['state']:<{widths[1]}}  {row['detail']}")


def _count_or_all(text: str) -> int | str:
    return text if text == "all" else int(text)


def _nodes(text: str) -> int | list[float]:
    return [float(node) for node in text.split(",")] if "," in text else int(text)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _run(args: argparse.Namespace, given: Sequence[str]) -> None:
    from lrp_companion.runs.execute import device_of, execute, launch, world

    whole("run", "--processes", args.processes, hint="leave it out for one")
    if not args.out.strip():
        hint = "name one that can be made, such as --out runs/first"
        raise InputError("run", got="an empty --out", expected="a folder", hint=hint)
    try:
        if args.processes > 1 and "WORLD_SIZE" not in os.environ:
            launch(args.processes, given)
            return
        state = world(args.device)
        make_jobs = _mnist_jobs if args.task.startswith("mnist") else _text_jobs
        jobs = make_jobs(args, device_of(args.device, state))
        progress = False if args.quiet else None
        manifest = execute(jobs, args.out, resume=args.resume, progress=progress, state=state)
    except KeyboardInterrupt:
        kept = f"finished jobs are kept in {args.out}, the same command goes on from there"
        print(f"run: stopped; {kept}", file=sys.stderr)
        raise
    if manifest:
        seconds = sum(session["seconds"] or 0 for session in manifest["sessions"])
        examples = f"{manifest['examples']} examples of {manifest['data']}"
        print(f"run {manifest['key']}: {examples}, {seconds:.0f} s in {args.out}")


def _chosen(args: argparse.Namespace, allowed: Sequence[str]) -> dict[str, Any]:
    """Options that were given; those that this task has no use for are refused."""
    only = ("model", "methods", "masks", "n_steps", "removals", "targets", "loo_from", "nets", "dtype")
    given = {name: getattr(args, name) for name in only if getattr(args, name) is not None}
    for name in given:
        if name not in allowed:
            got = f"--{name.replace('_', '-')} for {args.task}"
            listed = ", ".join("--" + option.replace("_", "-") for option in allowed)
            raise InputError("run", got=got, expected=f"of these only {listed}", hint="leave it out")
    return given


def _text_jobs(args: argparse.Namespace, device: str) -> Any:
    allowed = ("model", "methods", "masks", "n_steps", "removals", "targets", "loo_from", "dtype")
    options = _chosen(args, allowed)
    from lrp_companion.models.pretrained import load_classifier
    from lrp_companion.runs.review_jobs import TextJobs
    from lrp_companion.sources import load_dataset

    data = load_dataset(args.task, split=args.split, source=args.source, data_dir=args.data_dir)
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
    from lrp_companion.views.paper_tables import report, write_figures

    runs = load_runs(args.folders)
    files = write_figures(runs, args.figures) if args.figures else []
    if args.json:
        print(json.dumps(report_rows(runs), ensure_ascii=False))
        return
    print(report(runs), end="")
    if files:
        print(f"\nFigures: {', '.join(file.name for file in files)} in {args.figures}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 0, or 2 for bad input."""
    try:
        args = _parser().parse_args(arguments)
        if args.command == "run":
            _run(args, list(sys.argv[1:] if arguments is None else arguments))
        else:
            {"explain": _explain, "sources": _sources, "report": _report}[args.command](args)
    except CompanionError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe went away: nothing to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

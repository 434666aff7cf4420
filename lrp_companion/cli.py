"""The `lrp-companion` command: thin wrappers over the package. Bad input gives one line on standard error and
exit code 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from lrp_companion import __version__
from lrp_companion.schema import REMOVALS, SITES, TARGET_CHOICES, Attribution, CompanionError, InputError


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
    explain = commands.add_parser("explain", help="one score per token of a text")
    explain.add_argument("text", help='the text, or "-" to read it from standard input')
    explain.add_argument(
        "--method",
        default="attnlrp",
        help="attnlrp (default), cp-lrp, pa-lrp, lrp, loo, ig, gradient-x-input, rollout, mask-gradient, hybrid, sampled-loo",
    )
    explain.add_argument(
        "--model", default="companion", help="an embedded model, a folder, or a hub id (default: companion)"
    )
    explain.add_argument("--device", default="cpu")
    explain.add_argument("--dtype", default="float32", help="float32, float64 or bfloat16")
    explain.add_argument("--target", type=int, help="class to explain (default: the predicted one)")
    explain.add_argument("--site", choices=SITES)
    explain.add_argument(
        "--output", choices=TARGET_CHOICES, help="what is explained: logit, margin or probability"
    )
    explain.add_argument("--epsilon", type=float)
    explain.add_argument(
        "--bypass",
        type=_layers,
        metavar="LAYERS",
        help="layers whose attention is held constant, from 1, such as 1,2,7-12 (method lrp)",
    )
    explain.add_argument("--removal", choices=REMOVALS)
    explain.add_argument("--baseline", help="pad-token, mask-token or zero (method ig)")
    explain.add_argument("--n-steps", type=int, help="quadrature nodes (method ig)")
    explain.add_argument(
        "--groups",
        type=_count_or_all,
        help='groups of tokens, a number or "all" (methods mask-gradient, hybrid)',
    )
    explain.add_argument(
        "--nodes",
        type=_nodes,
        help="how many quadrature nodes each token's path has, or which, such as 0.2,1 (methods mask-gradient, hybrid)",
    )
    explain.add_argument("--exact", type=int, help="tokens with exact LOO (method hybrid)")
    explain.add_argument(
        "--correct", help="what the others learn from these: none, scale, shift or line (method hybrid)"
    )
    explain.add_argument("--budget", type=int, help="tokens drawn at random (method sampled-loo)")
    explain.add_argument(
        "--seed", type=int, help="of random groups or tokens (methods mask-gradient, hybrid, sampled-loo)"
    )
    explain.add_argument("--truncate", action="store_true", help="cut a text beyond the model's length")
    explain.add_argument("--json", action="store_true", help="print the record as JSON")
    explain.add_argument(
        "--no-colour",
        action="store_true",
        help="no colours (also when NO_COLOR is set or the output is no terminal)",
    )
    run = commands.add_parser(
        "run", help="measure a whole data set; the same command again goes on where it stopped"
    )
    run.add_argument("task", choices=("mnist", "mnist-grid", "sst2", "imdb"))
    run.add_argument("--out", required=True, help="folder of this run: a manifest and rows of numbers")
    run.add_argument(
        "--model",
        help="an embedded model, a folder, or a hub id (default: companion); for mnist a variant: plain, biases, ...",
    )
    run.add_argument(
        "--methods", type=_names, help="such as loo,attnlrp,mask-gradient:groups=8:nodes=0.2+1 (default: six)"
    )
    run.add_argument(
        "--masks",
        choices=("none", "paths", "all"),
        help="layers bypassed: on the paper's three paths (default), or all 2**L",
    )
    run.add_argument("--n-steps", type=int, help="quadrature nodes of ig (default: 50)")
    run.add_argument(
        "--removals",
        type=_names,
        help="how LOO removes a token: attention-mask, and others (default: all of the task)",
    )
    run.add_argument(
        "--targets",
        type=_names,
        help="what is explained: logit, and others (default: logit, margin, probability)",
    )
    run.add_argument(
        "--loo-from",
        metavar="DIR",
        help="take LOO from another run of the same model, data and number format, where it has it",
    )
    run.add_argument(
        "--nets", type=int, help="mnist: how many nets to train, with the seeds 0, 1, ... (default: 5)"
    )
    run.add_argument("--limit", type=int, help="a random sample of so many examples (default: all)")
    run.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    run.add_argument("--source", choices=("auto", "embedded", "folder", "hub"), default="auto")
    run.add_argument("--data-dir", help="folder with sst2/, imdb/ and mnist/ (default: LRP_COMPANION_DATA)")
    run.add_argument("--split", help="default: validation of sst2, test of imdb and mnist")
    run.add_argument("--device", default="cpu")
    run.add_argument("--dtype", help="float32 (default), float64 or bfloat16; mnist is always float64")
    run.add_argument(
        "--processes", type=int, default=1, help="processes on this machine, one per GPU with --device cuda"
    )
    run.add_argument("--resume", action="store_true", help="go on only; refuse to begin a new run")
    run.add_argument("--quiet", action="store_true", help="no progress")
    report = commands.add_parser(
        "report", help="tables, figures and claims of runs, with the paper's numbers beside"
    )
    report.add_argument(
        "folders", nargs="+", metavar="DIR", help="the folder of a run, or a folder of such folders"
    )
    report.add_argument("--json", action="store_true", help="print the rows as JSON")
    report.add_argument(
        "--figures", metavar="FOLDER", help="also write Figure 2 of each run there, as PNG and PDF"
    )
    sources = commands.add_parser("sources", help="what data and models this machine can reach")
    sources.add_argument(
        "--data-dir", help="folder with sst2/, imdb/ and mnist/ (default: LRP_COMPANION_DATA)"
    )
    sources.add_argument("--hub", action="store_true", help="also ask whether the hub answers")
    sources.add_argument("--json", action="store_true")
    return parser


OPTIONS = (
    "target",
    "site",
    "output",
    "epsilon",
    "bypass",
    "removal",
    "baseline",
    "n_steps",
    "groups",
    "nodes",
    "exact",
    "correct",
    "budget",
    "seed",
)


def _explain(args: argparse.Namespace) -> None:
    from lrp_companion.methods import attribute
    from lrp_companion.models.pretrained import load_classifier
    from lrp_companion.views.tokens import terminal_table

    text = sys.stdin.read() if args.text == "-" else args.text
    if not text.strip():
        raise InputError(
            "explain",
            got="an empty text",
            expected="a text with at least one word",
            hint="put the text in quotes",
        )
    options: dict[str, Any] = {
        name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None
    }
    if args.truncate:
        options["truncate"] = True
    clf = load_classifier(args.model, device=args.device, dtype=args.dtype)
    (record,) = attribute(clf, text, method=args.method, **options)
    if args.json:
        print(json.dumps(_as_json(record), ensure_ascii=False))
        return
    plain = args.no_colour or os.environ.get("NO_COLOR")
    colour = not plain and (sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR")))
    choices = ", ".join(f"{k} {v}" for k, v in record.choices.items())
    print(
        f"{clf.card.name} ({clf.card.source}, {clf.card.layers} layers): {record.details['label']}, logit {record.logit:.3f}"
    )
    print(f"{record.method} ({choices})")
    print(terminal_table(record, colour=colour))


def _as_json(record: Attribution) -> dict[str, Any]:
    return {
        "tokens": list(record.tokens),
        "scores": record.scores.tolist(),
        "special": record.special.tolist(),
        "target": record.target,
        "logit": record.logit,
        "method": record.method,
        "choices": dict(record.choices),
        "details": dict(record.details),
        "parts": {name: values.tolist() for name, values in record.parts.items()},
    }


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

    if args.processes < 1:
        raise InputError(
            "run",
            got=f"--processes {args.processes}",
            expected="a whole number, at least 1",
            hint="leave it out for one",
        )
    if not args.out.strip():
        raise InputError(
            "run",
            got="an empty --out",
            expected="a folder",
            hint="name one that can be made, such as --out runs/first",
        )
    try:
        if args.processes > 1 and "WORLD_SIZE" not in os.environ:
            launch(args.processes, given)
            return
        state = world(args.device)
        jobs = (_mnist_jobs if args.task.startswith("mnist") else _text_jobs)(
            args, device_of(args.device, state)
        )
        manifest = execute(
            jobs, args.out, resume=args.resume, progress=False if args.quiet else None, state=state
        )
    except KeyboardInterrupt:
        print(
            f"run: stopped; finished jobs are kept in {args.out}, the same command goes on from there",
            file=sys.stderr,
        )
        raise
    if manifest:
        seconds = sum(session["seconds"] or 0 for session in manifest["sessions"])
        print(
            f"run {manifest['key']}: {manifest['examples']} examples of {manifest['data']}, {seconds:.0f} s in {args.out}"
        )


def _chosen(args: argparse.Namespace, allowed: Sequence[str]) -> dict[str, Any]:
    """Options that were given; those that this task has no use for are refused."""
    only = ("model", "methods", "masks", "n_steps", "removals", "targets", "loo_from", "nets", "dtype")
    given = {name: getattr(args, name) for name in only if getattr(args, name) is not None}
    for name in given:
        if name not in allowed:
            listed = ", ".join("--" + option.replace("_", "-") for option in allowed)
            raise InputError(
                "run",
                got=f"--{name.replace('_', '-')} for {args.task}",
                expected=f"of these only {listed}",
                hint="leave it out",
            )
    return given


def _text_jobs(args: argparse.Namespace, device: str) -> Any:
    options = _chosen(
        args, ("model", "methods", "masks", "n_steps", "removals", "targets", "loo_from", "dtype")
    )
    from lrp_companion.models.pretrained import load_classifier
    from lrp_companion.runs.review_jobs import TextJobs
    from lrp_companion.sources import load_dataset

    data = load_dataset(args.task, split=args.split, source=args.source, data_dir=args.data_dir)
    clf = load_classifier(
        options.pop("model", "companion"), device=device, dtype=options.pop("dtype", "float32")
    )
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
        given = list(sys.argv[1:] if arguments is None else arguments)
        {"explain": _explain, "sources": _sources, "report": _report, "run": lambda own: _run(own, given)}[
            args.command
        ](args)
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

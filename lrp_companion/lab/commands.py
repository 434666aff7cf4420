"""The commands `run`, `report` and `words`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any

from lrp_companion.checks import SITES, InputError, as_path, choose
from lrp_companion.cli import DATA_DIR, MODEL, RULES, Command, either, loaded, names, registered
from lrp_companion.terminal import check_output, complain, printable, say, visible

DATA_SETS = ("sst2", "imdb", "mnist")
OWN = ("text", "pair", "label", "completion", "write")
"""Options that only the user's own data have."""
ANSWERS = ("model", "methods", "n_steps", "removals", "dtype")
TEXTS = (*ANSWERS, "keep_maps", "masks", "targets", "loo_from", "curves")
DIGITS = ("model", "nets")
WORD_OPTIONS = ("methods", "target", "site", "least", "by")
"""Options of each kind of run."""


def _options_of_run(add: Callable[..., Any]) -> None:
    text = "sst2, imdb, mnist; or your texts: a .csv, .tsv, .json(l) or .parquet file, or a folder"
    add("task", metavar="DATA", help=text)
    _columns(add)
    text = "your data, and a language model: the column of what follows the texts"
    add("--completion", metavar="COLUMN", help=text)
    text = "your data, and a language model: what it writes after the texts, N tokens at most"
    add("--write", type=int, metavar="N", help=text)
    add("--out", required=True, help="folder of this run: a manifest and rows of numbers")
    add("--model", help=f"{MODEL}; for mnist a variant: plain, biases, ...")
    text = "such as loo,attnlrp,mask-gradient:groups=8:nodes=0.2+1 (default: six)"
    add("--methods", type=names, help=text)
    text = "layers bypassed: on the paper's three paths (default), or all 2**L"
    add("--masks", choices=("none", "paths", "all"), help=text)
    add("--n-steps", type=int, help="quadrature nodes of ig (default: 50)")
    text = "how LOO removes a token: attention-mask, and others (default: all of the task)"
    add("--removals", type=names, help=text)
    text = "what is explained: logit, and others (default: logit, margin, probability)"
    add("--targets", type=names, help=text)
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
    add("--rules", metavar="FILE", help=RULES)
    add("--resume", action="store_true", help="resume an existing run; never start one")
    add("--quiet", action="store_true", help="no progress")


def _options_of_report(add: Callable[..., Any]) -> None:
    text = "a run's folder, or a folder of such folders"
    add("folders", nargs="+", metavar="DIR", help=text)
    text = "also write everything to this folder: the text, and tables as CSV and LaTeX"
    add("--out", metavar="FOLDER", help=text)


def _options_of_words(add: Callable[..., Any]) -> None:
    add("run", metavar="DIR", help="a run's folder, made with --keep-maps")
    add("data", nargs="?", metavar="DATA", help="the run's texts, if they are your own: a run keeps none")
    _columns(add)
    add("--model", help="the run's, if it is not found by its name")
    add("--methods", type=names, help="some of the run's (default: all)")
    text = "only texts that are predicted as this class (its label); scores are for the predicted class"
    add("--target", metavar="CLASS", help=text)
    add("--site", choices=SITES, default=SITES[0])
    add("--least", type=int, default=2, help="leave out words of fewer texts (default: 2)")
    text = 'column to sort by, such as loo or "cp-lrp - loo" (default: a method\'s difference from LOO)'
    add("--by", metavar="COLUMN", help=text)
    add("--top", type=int, default=20, metavar="N", help="show the first N words (default: 20)")
    add("--out", metavar="FILE", help="save all words, as .csv or .tex")


def _columns(add: Callable[..., Any]) -> None:
    add("--text", metavar="COLUMN", help="your data: the column of the texts (default: text or sentence)")
    add("--pair", metavar="COLUMN", help="your data: the column of second texts, for models of pairs")
    text = 'your data: the column of labels, names or class numbers (default: label; "" for none)'
    add("--label", metavar="COLUMN", help=text)


def _carry_out_run(args: argparse.Namespace) -> None:
    own = _check_data(args)
    registered(args)
    from lrp_companion.lab.execute import device_of, execute, world

    args.out = str(as_path("run", "--out", args.out))
    try:
        state = world(args.device)
        jobs = (_digits if args.task == "mnist" else _texts)(args, device_of(args.device, state), own)
        manifest = execute(jobs, args.out, resume=args.resume, progress=not args.quiet, state=state)
    except KeyboardInterrupt:
        kept = f"finished jobs are kept in {args.out}; the same command resumes the run"
        complain(f"run: stopped; {kept}")
        raise
    if manifest:
        seconds = sum(session["seconds"] or 0 for session in manifest["sessions"])
        examples = f"{manifest['examples']} examples of {manifest['data']}"
        say(visible(f"run {manifest['key']}: {examples}, {seconds:.0f} s in {args.out}"))


def _check_data(args: argparse.Namespace) -> bool:
    """Whether the data are the user's own; refuse missing data or a missing model before torch is imported,
    which takes seconds.
    """
    from lrp_companion.sources import is_own, locate

    own = args.task not in DATA_SETS and is_own(args.task)
    if args.task not in DATA_SETS and not (own and os.path.exists(os.path.expanduser(args.task))):
        expected = f"one of {', '.join(DATA_SETS)}, or the path of a file or folder with your texts"
        raise InputError("run", got=f"data {args.task!r}", expected=expected, hint="check the path")
    for name, other in (("completion", "write"), ("completion", "pair"), ("write", "pair")):
        either(args, "run", name, other)
    if args.model is not None and args.task != "mnist":
        locate(args.model)
    return own


def _chosen(args: argparse.Namespace, allowed: Sequence[str]) -> dict[str, Any]:
    """Return the given options; refuse those that do not apply to this run."""
    options = dict.fromkeys((*TEXTS, *DIGITS, *OWN))
    given = {name: getattr(args, name) for name in options if getattr(args, name) is not None}
    if others := [f"--{name.replace('_', '-')}" for name in given if name not in allowed]:
        listed = ", ".join("--" + option.replace("_", "-") for option in allowed)
        got = f"{', '.join(others)} for {args.task}"
        raise InputError("run", got=got, expected=f"only {listed}", hint="leave it out")
    return given


def _texts(args: argparse.Namespace, device: str, own: bool) -> Any:
    answers = args.completion is not None or args.write is not None
    options = _chosen(args, ((ANSWERS if answers else TEXTS) + (OWN if own else ())))
    from lrp_companion.lab.review_jobs import AnswerJobs, TextJobs
    from lrp_companion.sources import load_dataset

    columns = {"text": args.text, "pair": args.completion or args.pair, "label": args.label}
    data = load_dataset(args.task, split=args.split, source=args.source, data_dir=args.data_dir, **columns)
    options = {name: value for name, value in options.items() if name not in OWN}
    model, dtype = options.pop("model", "companion"), options.pop("dtype", "float32")
    if answers:
        removal = ",".join(options.pop("removals", ["attention-mask"]))
        options |= {"completion": args.write, "removal": removal}
    clf = loaded(model, device=device, dtype=dtype)
    return (AnswerJobs if answers else TextJobs)(clf, data, limit=args.limit, seed=args.seed, **options)


def _digits(args: argparse.Namespace, device: str, own: bool) -> Any:
    options = _chosen(args, DIGITS)
    from lrp_companion.lab.digit_invariance import MnistJobs
    from lrp_companion.sources import load_dataset

    train, test = (
        load_dataset("mnist", split=split, source=args.source, data_dir=args.data_dir)
        for split in ("train", args.split or "test")
    )
    options |= {"limit": args.limit, "seed": args.seed, "device": device}
    return MnistJobs(train, test, variant=options.pop("model", "plain"), **options)


def _carry_out_report(args: argparse.Namespace) -> None:
    from lrp_companion.lab.load import load_runs
    from lrp_companion.lab.paper.report import report, write_report

    check_output()
    out = None if args.out is None else as_path("report", "--out", args.out)
    runs = load_runs(args.folders)
    files = [] if out is None else write_report(runs, out)
    say(printable(report(runs)), end="")
    if files:
        say("\n" + visible(f"Files: {', '.join(file.name for file in files)} in {out}"))


def _carry_out_words(args: argparse.Namespace) -> None:
    from lrp_companion.lab.load import load_run
    from lrp_companion.lab.paper.report import harmless
    from lrp_companion.lab.word_table import word_table
    from lrp_companion.show.tables import table
    from lrp_companion.sources import load_dataset

    check_output()
    out = None if args.out is None else as_path("words", "--out", args.out)
    if out is not None:
        choose("words", "--out", out.suffix, (".csv", ".tex"))
    run, data = load_run(args.run), args.data
    if data is not None:
        data = load_dataset(data, text=args.text, pair=args.pair, label=args.label)
    options = {name: getattr(args, name) for name in WORD_OPTIONS}
    words = word_table(run, data, args.model, top=None if out else args.top, **options)
    if out is not None:
        csv = words.rename(index=harmless).to_csv(lineterminator="\n")
        out.write_text(table(words).to_latex() if out.suffix == ".tex" else csv, encoding="utf-8")
    caption = f"{run!r}\nmean score in a text, map absolute-sum, with its interval over texts"
    say(printable(str(table(words.head(args.top), caption=caption))))


_text = "measure a whole data set; repeat the command to resume a stopped run"
RUN = Command(_text, _options_of_run, _carry_out_run)
_text = "the words of a run: mean scores over its texts, each method beside LOO"
WORDS = Command(_text, _options_of_words, _carry_out_words)
_text = "tables and claims of runs, next to the paper's numbers"
REPORT = Command(_text, _options_of_report, _carry_out_report)

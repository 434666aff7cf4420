"""Every public function and the command line with arguments good and odd, under one rule.

The rule: a finite result of the documented shape (a correlation may be NaN where it is undefined), or an
error that says what is wrong with the input, ours or a library's (`REFUSALS`); for the command line exit code
0, or 2 or 3 with one line. Logits, LOO and gradients are those of a plain call of the network
(`plain_values.py`). `test_fuzz.py` tries 500 cases; `python tests/fuzz_runs.py [CASES [SEED]]` tries 10,000.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from plain_values import COMPARED, FAMILIES, Plain, compare, explained, near
from tiny_models import build, reviews

import lrp_companion as lrp
from lrp_companion.checks import SITES
from lrp_companion.cli import main as command_line
from lrp_companion.lab.execute import execute
from lrp_companion.lab.load import load_run
from lrp_companion.lab.review_jobs import TextJobs
from lrp_companion.methods import METHODS, options_of
from lrp_companion.methods.common import targets_of
from lrp_companion.schema import MAP_CHOICES, REMOVALS, STATISTICS, TARGET_CHOICES, TOKEN_CHOICES

PATIENCE = 30  # seconds of work, or ten times as many of waiting, after which a call counts as hanging
CASES = 10_000
RESULTS = Path(__file__).resolve().parents[1] / "results"
REFUSALS = (
    lrp.CompanionError, TypeError, ValueError, OSError, AttributeError, OverflowError, RuntimeError,
    SyntaxError, EOFError, MemoryError,
)  # fmt: skip
"""An index, a key or a division that fails is a fault of the program."""
Good = Mapping[str, st.SearchStrategy[Any]]
Check = Callable[[Any], bool]

ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([
        None, True, False, 0, 1, -1, 2, 10**30, 10**400, -(10**5000), 0.0, -0.5, 0.5, 1e-300, 1e308, math.nan,
        math.inf, -math.inf, 1j, "", " ", "a\0b", "\ud800", "x" * 300, "~nobody-here/x", "\x1b[2J", "0",
        "all", b"bytes", (), [], {}, {1: 2}, {"a": "b"}, set(), [None], [[1], [1, 2]], ["a", 1], range(3),
        object(), np.array(1), np.array([]), np.zeros((2, 2)), np.array(["a"]), np.array([None]),
        np.float32(0.5), np.array([math.nan, 1.0]), np.ma.array([0.5, 1.0, 2.0], mask=[0, 1, 0]),
        np.ma.masked,
        np.array([2**53 + 1, 0, 1]), 2**63, np.array([1j, 2]), np.array(["2020"], "M8[Y]"), ["False", "True"],
        [2**53 + 1, 0.5, 1], np.timedelta64(1, "D"), Fraction(1, 3),
        torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(1), torch.zeros(2, 3), Path("nowhere"),
        len,
    ]),
    st.text(max_size=8), st.integers(), st.floats(), st.lists(st.floats(), max_size=4),
    st.lists(st.integers(-2, 5), max_size=4),
)  # fmt: skip
NUMBERS = st.lists(st.floats(-5, 5), min_size=3, max_size=5)
IMAGE_METHODS = ("loo", "ig", "lrp", "attnlrp", "mask-gradient")
PAIRS = st.sampled_from([("a film", "dull"), [("the plot", "a film"), "slow"]])
TEXTS = st.sampled_from(["a film", "the plot is slow", ["a film", "dull"], "zzz", "[SEP]", "a [MASK] film"])


def finite(values: Any) -> bool:
    return bool(np.isfinite(np.asarray(values, dtype=np.float64)).all())


def is_correlation(value: Any) -> bool:
    return isinstance(value, float) and (math.isnan(value) or -1 - 1e-9 <= value <= 1 + 1e-9)


def are_records(records: Any) -> bool:
    return isinstance(records, list) and all(
        record.scores.shape == (len(record.tokens),) and finite(record.scores) and math.isfinite(record.logit)
        for record in records
    )


def is_interval(value: Any) -> bool:
    numbers = (value.mean, value.low, value.high)
    return value.n >= 0 and all(math.isfinite(number) or math.isnan(number) for number in numbers)


def text_options() -> dict[str, st.SearchStrategy[Any]]:
    """Every option of every method on text, with good values."""
    return {
        "site": st.sampled_from(SITES),
        "epsilon": st.sampled_from([0.0, 1e-6, 1]),
        "bypass": st.sampled_from([(), [1], [1, 2]]),
        "output": st.sampled_from(TARGET_CHOICES),
        "removal": st.sampled_from(REMOVALS),
        "n_steps": st.integers(1, 4),
        "baseline": st.just("zero"),
        "groups": st.sampled_from([1, 2, 8, "all"]),
        "nodes": st.sampled_from([1, 2, [0.2, 1]]),
        "seed": st.integers(0, 3),
        "exact": st.integers(1, 3),
        "correct": st.sampled_from(["none", "shift"]),
        "budget": st.integers(1, 3),
        "head_fusion": st.just("max"),
        "row": st.just("mean"),
        "residual": st.booleans(),
        "batch_tokens": st.integers(1, 64),
        "progress": st.just(False),
        "truncate": st.booleans(),
        "temperature": st.just(1),
        "contrast": st.sampled_from([0, 1]),
        "gate": st.just("uniform"),
        "positions": st.just("absolute"),
        "permutations": st.sampled_from([4, 6]),
    }


class Subject:
    """A callable with good values for its arguments: `needed` are always given, of `more` a few;
    unless `odd`, none is replaced by an odd one. One with a larger `share` is tried more.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        check: Check,
        needed: Good,
        more: Good | None = None,
        *,
        odd: bool = True,
        share: float = 1,
    ) -> None:
        self.call, self.check, self.needed, self.more, self.odd = call, check, needed, more or {}, odd
        self.share = share


@st.composite
def cases_of(draw: Any, subject: Subject) -> dict[str, Any]:
    """Arguments by name: up to two of them odd."""
    extra = draw(st.sets(st.sampled_from(sorted(subject.more)), max_size=3)) if subject.more else set()
    names = [*subject.needed, *sorted(extra)]
    odd = draw(st.sets(st.sampled_from(names), max_size=2)) if subject.odd else set()
    good = {**subject.needed, **subject.more}
    return {name: draw(ODD if name in odd else good[name]) for name in names}


def record(scores: Any = (0.1, -0.2)) -> lrp.Attribution:
    return lrp.Attribution(("[CLS]", "fine"), list(scores), 1, 2.5, [True, False], "loo")


REVIEWS = reviews(["A film of rare grace", "the plot , the film", "a dull film"])
KEEPS: st.SearchStrategy[Any] = st.sampled_from(
    [[0.5], [math.nan], ["False"], [2], [None], [1j], [True], [0], np.ma.array([True], mask=[True]), [[1]]]
)
"""Entries of a mask of kept tokens, good and odd."""


def others() -> dict[str, tuple[lrp.Classifier, Plain]]:
    """Classifiers of several families in memory, three classes each, and as their user calls them."""
    out = {}
    for family in FAMILIES:
        network, tokenizer = build(family, labels=3)
        if family in ("distilbert", "modernbert"):  # which take no token types
            tokenizer.model_input_names = ["input_ids", "attention_mask"]
        out[family] = lrp.load_classifier(network, tokenizer, dtype="float64"), Plain(network, tokenizer)
    return out


def subjects(model: Path) -> dict[str, Subject]:
    """Public functions by name, on a tiny model."""
    folder = Path(tempfile.mkdtemp(dir=model.parent))
    clf = lrp.load_classifier(model, dtype="float64")
    usual, several = Plain(clf.network, clf.tokenizer), others()
    net = lrp.LinearAttention(tokens=9, dim=4, classes=3, dtype=torch.float64)
    just, options = st.just, text_options()
    lattice = lrp.layer_lattice(clf, "a film")
    length = len(lattice.tokens)
    pixels = st.sampled_from([np.full((1, 9), 0.5), torch.ones(2, 9, dtype=torch.float64), np.zeros((2, 9))])
    pair = {"a": NUMBERS, "b": NUMBERS}
    bootstrap = {"resamples": st.integers(1, 50), "level": st.floats(0.5, 0.9), "seed": st.integers(0, 3)}
    target = {"target": st.sampled_from([None, 0, 1])}

    @functools.cache
    def run_of_words() -> Any:
        lean: dict[str, Any] = {"masks": "none", "curves": False, "keep_maps": True}
        execute(
            TextJobs(clf, REVIEWS, methods=["attnlrp", "cp-lrp"], **lean), folder / "words", progress=False
        )
        return load_run(folder / "words")

    def attributed(family: Any, inputs: Any, **given: Any) -> Any:
        one, plain = several.get(family, (clf, usual))
        if family in several:  # with options of its method only, so that most give scores
            taken = {"method", *target, "contrast", "truncate", *options_of(given["method"])}
            given = {name: value for name, value in given.items() if name in taken}
        records = lrp.attribute(one, inputs, **given)
        compare(one, plain, inputs, records)
        return records

    def removal(text: Any, keep: Any, target: Any, **given: Any) -> Any:
        values = lrp.removal_evaluator(clf, text, target=target, **given)(keep)
        logits = usual.without(text, list(map(bool, keep[0])), given.get("removal", "attention-mask"))
        (number,) = targets_of(clf, target, 1)
        wanted = explained(logits, int(number or 0), given.get("output", "logit"))
        near(values[0], wanted, f"removal from {text!r}")
        return values

    def keeps(entry: Any, removal: Any) -> Any:
        evaluate = lrp.removal_evaluator(clf, "a film", target=1, removal=removal)
        values = evaluate([[*entry, *[True] * (length - 1)]])
        plain = evaluate(np.array([[bool(entry[0]), *[True] * (length - 1)]]))
        return values, plain

    def divided(text: Any, **given: Any) -> Any:
        edges, loo = lrp.edge_loo(clf, text, **given)
        (plain,) = lrp.attribute(clf, text, method="loo", output="logit", **given)
        near(loo, plain.scores, f"the removals of {text!r}")
        return edges.sum((0, 1, 2)), loo

    def images(image_method: Any, **given: Any) -> Any:
        return lrp.attribute(net, method=image_method, **given)

    return {
        "attribute": Subject(
            lambda **given: attributed("", **given), are_records,
            {"inputs": TEXTS, "method": st.sampled_from(sorted(METHODS))}, target | options,
        ),
        "attribute, other families": Subject(
            attributed, are_records,
            {"family": st.sampled_from(FAMILIES), "inputs": st.one_of(TEXTS, PAIRS),
             "method": st.sampled_from(["loo", *sorted(METHODS)])}, target | options,
            odd=False, share=8,
        ),
        "attribute on images": Subject(
            images, are_records,
            {"inputs": pixels, "image_method": st.sampled_from(IMAGE_METHODS)},
            target | {"n_steps": st.integers(1, 3), "epsilon": just(0.0), "shares": just("flat"),
                      "groups": st.integers(1, 3), "batch_images": st.integers(1, 4)},
        ),
        "check": Subject(
            lambda **given: lrp.check(clf, **given), lambda done: not done.broken,
            {"texts": just(["a film", "the plot is dull"])},
            {"truncate": options["truncate"], "progress": just(False)},
        ),
        "symmetries": Subject(
            lambda **given: lrp.symmetries(clf, **given),
            lambda done: max(done.logits.values(), default=0) < 1e-9,
            {"texts": just("a film"), "methods": just(["attnlrp"])},
            {"seed": options["seed"], "names": st.sampled_from([None, ["key bias"], ["gain of norms"]])},
        ),
        "layer_lattice": Subject(
            lambda **given: lrp.layer_lattice(clf, **given).scores,
            lambda scores: scores.shape[0] == 4 and finite(scores), {"text": just("a film")},
            target | {name: options[name] for name in ("site", "epsilon", "output", "truncate")},
        ),
        "layer_relevance": Subject(
            lambda **given: lrp.layer_relevance(clf, **given).scores,
            lambda scores: scores.shape[0] == 4 and finite(scores), {"text": just("a film")},
            target | {"epsilon": options["epsilon"], "truncate": options["truncate"],
                      "bypass": st.sampled_from([(), (1,), (1, 2)])},
        ),
        "removal_evaluator": Subject(
            removal, lambda values: values.shape == (1,) and finite(values),
            {"text": just("a film"), "target": just(1), "keep": st.lists(
                st.lists(st.booleans(), min_size=length, max_size=length), min_size=1, max_size=1)},
            {name: options[name] for name in ("removal", "output", "batch_tokens")},
        ),
        "edge_loo": Subject(
            divided, lambda pair: np.allclose(*pair, atol=1e-8), {"text": just("a film")},
            target | {"truncate": options["truncate"]}, share=0.2,
        ),
        "load_dataset": Subject(
            lrp.load_dataset, lambda data: len(data) > 0, {"name": st.sampled_from(["sst2", "imdb"])},
            {"split": just(None), "source": st.sampled_from(["embedded", "auto"]), "data_dir": st.none(),
             "limit": st.integers(1, 9), "seed": st.integers(0, 3)},
        ),
        **{name: Subject(getattr(lrp, name), is_correlation, pair) for name in STATISTICS},
        "agreement": Subject(
            lrp.agreement, is_correlation,
            {"scores": NUMBERS, "loo": NUMBERS, "special": just([True, False, False]),
             "protocol": just(lrp.Protocol())},
        ),
        "bootstrap_mean": Subject(lrp.bootstrap_mean, is_interval, {"values": NUMBERS}, bootstrap),
        "interval": Subject(lrp.interval, is_interval, {"values": NUMBERS}),
        "open_record": Subject(
            lambda name: lrp.open_record(name, results=RESULTS), lambda kept: "\n" not in repr(kept),
            {"name": st.sampled_from(["maps/sst2-companion", "shapley/*", "embedding-shift/companion"])},
            share=0.2,
        ),
        "word_table": Subject(
            lambda **given: lrp.word_table(run_of_words(), REVIEWS, clf, **given),
            lambda words: (words["count"] >= words["texts"]).all() and words.index.is_unique,
            {"least": st.integers(1, 3)},
            target | {"methods": st.sampled_from([None, [], ["cp-lrp"]]), "site": options["site"],
                      "map": st.sampled_from(MAP_CHOICES), "cased": st.booleans(), "by": just("loo"),
                      "top": st.integers(1, 4)}, share=0.2,
        ),
        "paired_difference": Subject(lrp.paired_difference, is_interval, pair, bootstrap),
        "conservation_gap": Subject(
            lrp.conservation_gap, bool, {"scores": NUMBERS, "logit": st.floats(-3, 3)}
        ),
        "invariance_gap": Subject(lrp.invariance_gap, bool, pair),
        "perturbation_curve": Subject(
            lambda **given: lrp.perturbation_curve(lambda keep: keep.sum(1) * 1.0, **given).logits,
            finite, {"scores": NUMBERS},
            {"order": st.sampled_from(["morf", "lerf"]), "chunk": st.integers(1, 3), "removable": st.none()},
        ),
        "token_heatmap": Subject(
            lambda **given: lrp.token_heatmap(**given)._repr_html_(), lambda html: "<script" not in html,
            {"attributions": st.sampled_from([record(), [record(), record()]])},
            {"titles": just(["one"]), "loo": just(record())}, odd=False,
        ),
        "Protocol": Subject(
            lrp.Protocol, str, {"site": st.sampled_from(SITES)},
            {"tokens": st.sampled_from(TOKEN_CHOICES), "map": st.sampled_from(MAP_CHOICES),
             "removal": st.sampled_from(REMOVALS), "target": st.sampled_from(TARGET_CHOICES),
             "statistic": st.sampled_from(STATISTICS)},
        ),
        "kept tokens": Subject(
            keeps, lambda pair: np.array_equal(*pair),
            {"entry": KEEPS, "removal": st.sampled_from(REMOVALS)}, odd=False,
        ),
        "records by hand": Subject(
            lambda **given: [lrp.Attribution(**{**record().to_dict(), **given})], are_records,
            {"scores": just([0.1, 0.2])},
            {name: just(value) for name, value in record().to_dict().items() if name != "scores"},
        ),
        "families": Subject(
            lambda name: lrp.family(name), callable,
            {"name": st.sampled_from(["mine", "__class__", "a b", ""])},
        ),
        "Lattice.scores_for": Subject(
            lambda layers: lattice.scores_for(layers), finite, {"layers": st.sampled_from([(), [1], [2, 1]])}
        ),
        "Lattice.mix": Subject(
            lambda amounts: lattice.mix(amounts), finite,
            {"amounts": st.lists(st.floats(0, 1), min_size=2, max_size=2)},
        ),
    }  # fmt: skip


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """A call that takes too long is an error, where there are alarms."""

    def late(*_: object) -> None:
        raise AssertionError(f"no answer after {PATIENCE} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    waiting = 10 * PATIENCE
    clocks = (signal.SIGPROF, signal.ITIMER_PROF, PATIENCE), (signal.SIGALRM, signal.ITIMER_REAL, waiting)
    before = [signal.signal(name, late) for name, _, _ in clocks]
    for _, clock, seconds in clocks:
        signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        for (name, clock, _), handler in zip(clocks, before, strict=True):
            signal.setitimer(clock, 0)
            signal.signal(name, handler)


def obeys(subject: Subject, case: Mapping[str, Any]) -> None:
    """Fail unless the call gives a good result or one of `REFUSALS`."""
    with patience(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = subject.call(**case)
        except REFUSALS as error:
            assert not isinstance(error, RecursionError)
            assert not isinstance(error, lrp.CompanionError) or len(str(error)) < 3_000
            return
        assert subject.check(result)


# -- the command line -------------------------------------------------------------------------------------

ODD_WORDS = st.one_of(
    st.sampled_from([
        "", " ", "0", "-1", "1,2", "5-2", "1-99999999999", "1e400", "nan", "inf", "9" * 5000, "all", "--json",
        "a\0b", "~nobody-here/x", "x" * 300, "\x1b[2J", "../..", "logit", "a:b=c", "loo:", "lrp:bypass=1",
        "\ud800",
    ]),
    st.text(max_size=6),
)  # fmt: skip
EXPLAIN = {
    "--method": [*sorted(METHODS), "lrp:bypass=1", "mask-gradient:groups=2:nodes=0.2+1"],
    "--device": ["cpu"],
    "--dtype": ["float64", "bfloat16"],
    "--target": ["0", "1"],
    "--site": [*SITES],
    "--output": [*TARGET_CHOICES],
    "--contrast": ["0", "1"],
    "--position": ["1"],
}


@st.composite
def command_lines(draw: Any, model: str) -> list[str]:
    """Arguments of `explain`, good and odd."""
    words = ["explain", "a film", "--model", model]
    for name in draw(st.lists(st.sampled_from(sorted(EXPLAIN)), max_size=3, unique=True)):
        words += [name, draw(st.one_of(st.sampled_from(EXPLAIN[name]), ODD_WORDS))]
    if draw(st.integers(0, 4)) == 0:
        words[draw(st.integers(0, len(words) - 1))] = draw(ODD_WORDS)
    return words


def obeys_on_the_command_line(words: list[str], folder: Path) -> None:
    """Fail unless the exit code is 0, or 2 or 3 with one line and nothing printed."""
    with tempfile.TemporaryDirectory(dir=folder) as out, patience(), contextlib.chdir(out):
        said, complained = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(complained),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            try:
                code: Any = command_line(words)
            except SystemExit as error:  # --help and --version
                code = error.code
        assert code in (0, 2, 3), f"exit code {code}: {complained.getvalue()}"
        if code:
            lines = complained.getvalue().splitlines()
            assert not re.search("(Index|Key|ZeroDivision|Assertion|Recursion)Error", lines[0]), lines
            assert len(lines) == 1 and said.getvalue() == "", (lines, said.getvalue())


def try_all(model: Path, folder: Path, cases: int, *, number: int = 0, only: str = "") -> None:
    """So many cases, an eighth on the command line; of those whose name holds `only`, if it is given."""
    known = {name: subject for name, subject in subjects(model).items() if only in name}
    each = cases * 7 / 8 / sum(subject.share for subject in known.values())
    common: dict[str, Any] = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
    common |= {"phases": [Phase.generate], "report_multiple_bugs": False}
    problems = []
    for name, subject in known.items():
        tried = given(cases_of(subject))(_rule_for(subject))
        tries = max(1, round(each * subject.share))
        problems += _failure(name, seed(number)(settings(max_examples=tries, **common)(tried)))

    @seed(number)
    @settings(max_examples=max(1, cases // 8), **common)
    @given(command_lines(str(model)))
    def line(words: list[str]) -> None:
        obeys_on_the_command_line(words, folder)

    problems += _failure("command line", line)
    assert not problems, "\n".join(problems)


def _rule_for(subject: Subject) -> Callable[[dict[str, Any]], None]:
    def rule(case: dict[str, Any]) -> None:
        obeys(subject, case)

    return rule


def _failure(name: str, test: Callable[[], None]) -> list[str]:
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            test()
    except BaseException as error:  # also a panic of Rust
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        where = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last else "?"
        notes = " ".join(getattr(error, "__notes__", []))
        return [f"{name}: {type(error).__name__}: {str(error)[:200]} at {where}; {notes[:400]}"]
    return []


def main(cases: int = CASES, number: int = 0) -> int:
    """Try so many cases, drawn by a seed; print what broke the rule; return the exit code."""
    from tiny_models import save

    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.pop("LRP_COMPANION_DATA", None)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            try_all(save(Path(scratch) / "model"), Path(scratch), cases, number=number)
        except AssertionError as error:
            print(error)
            return 1
    print(f"{cases} cases, none broke the rule; {COMPARED.total()} values are those of a plain call")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))

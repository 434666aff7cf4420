"""The record of one explanation, scores by token, by word, by span, and of a completion's tokens."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from lrp_companion.checks import (
    SITES,
    InputError,
    as_tuples,
    bool_array,
    choose,
    extra,
    ranking,
    real_array,
    scores_at,
    shown,
)
from lrp_companion.words import Span, Units, readable, units_of

if TYPE_CHECKING:
    import xarray as xr

RANKS = ("size", "for", "against")
CANCELLED = 1e-6
"""A sum below this fraction of sum |R| is rounding error of float32: its size and sign mean nothing."""


def frozen(array: np.ndarray) -> np.ndarray:
    """Return an array that is its owner's, read-only."""
    array.setflags(write=False)
    return array


class Record:
    """Frozen data class with arrays and read-only mappings; pickled, copied and compared by value."""

    def _typed(self, *mappings: str) -> None:
        """Bring the fields into their types, in place; `mappings` are those besides `parts`."""
        record: Any = self
        kind, tokens = type(self).__name__, tuple(record.tokens)
        arrays = {name: real_array(kind, name, part) for name, part in record.parts.items()}
        arrays |= {"scores": real_array(kind, "scores", record.scores)}
        arrays |= {"special": bool_array(kind, "special", record.special)}
        offsets = tuple((int(start), int(end)) for start, end in record.offsets)
        counts = {name: array.shape[-1:] for name, array in arrays.items()}
        counts |= {"offsets": (len(offsets),)} if offsets else {}
        odd = [name for name, count in counts.items() if count != (len(tokens),)]
        if odd:
            got, expected = f"{odd[0]} of other tokens than {shown(tokens)}", "one of each for every token"
            raise InputError(kind, got=got, expected=expected, hint=f"see help({kind})")
        values: dict[str, Any] = {name: frozen(arrays.pop(name)) for name in ("scores", "special")}
        values |= {name: MappingProxyType(as_tuples(getattr(record, name))) for name in mappings}
        parts = MappingProxyType({name: frozen(part) for name, part in arrays.items()})
        values |= {"tokens": tokens, "parts": parts, "offsets": offsets}
        values |= {"target": operator.index(record.target), "logit": float(record.logit)}
        vars(self).update(values)

    def _state(self) -> dict[str, Any]:
        """Fields by name, mappings as plain dicts."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        return {name: dict(v) if isinstance(v, Mapping) else v for name, v in values.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._state()), ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _same(self._state(), other._state())

    def __hash__(self) -> int:
        state = self._state()
        return hash((type(self), state["tokens"], state["target"], state["scores"].tobytes()))


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal, where NaN equals NaN and a list equals the tuple of its entries."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f")
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b or (a != a and b != b))


@dataclass(frozen=True, eq=False)
class Attribution(Record):
    """One explanation: a score for every token of a text or every pixel of an image.

    Attributes
    ----------
    tokens : the tokens, special ones included, padding left out; for an image "row,column" of each pixel, or
        [CLS] and "patch row,column" of a model that reads patches.
    scores : float64, shape (T,), in units of the explained output (a logit unless `choices` says otherwise).
    target : index of the explained class.
    logit : the model's logit of that class on the whole input.
    special : bool, shape (T,); True where a token is special ([CLS], [SEP]).
    method : the method's name.
    choices : every choice the scores depend on (site, epsilon, removal, baseline, ...).
    parts : scores by part of the embedding sum (`word`, `position`, `type`), if the method has them.
    details : other measurements (a convergence delta, a label's name).
    text : the explained text; for a pair both texts, each on its line; "" if it is not known.
    offsets : position of each token in `text`, (start, end) in characters; () if it is not known.

    >>> record = Attribution(
    ...     ("[CLS]", "fine", "##ly", "!"), [0.5, 1.0, 2.0, -1.0], 1, 2.5, [True, False, False, False], "lrp",
    ...     text="Finely!", offsets=[(0, 0), (0, 4), (4, 6), (6, 7)],
    ... )
    >>> dict(zip(record.words().tokens, record.words().scores.tolist()))
    {'[CLS]': 0.5, 'Finely': 3.0, '!': -1.0}
    >>> record == Attribution.from_json(record.to_json())
    True
    """

    tokens: tuple[str, ...]
    scores: np.ndarray
    target: int
    logit: float
    special: np.ndarray
    method: str
    choices: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    offsets: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        self._typed("choices", "details")

    def scores_at(self, site: str) -> np.ndarray:
        """Scores read at a site, shape (T,); a method without parts (LOO, IG, rollout) has only one map."""
        choose("Attribution.scores_at", "site", site, SITES)
        return scores_at(self.parts, site) if self.parts else self.scores

    def __repr__(self) -> str:
        where = f"tokens={len(self.tokens)}, target={self.target}, logit={self.logit:.4g}"
        return f"Attribution(method={self.method!r}, {where})"

    @property
    def pieces(self) -> tuple[str, ...]:
        """The tokens in readable form: as text where the vocabulary spells bytes (see `words.readable`)."""
        return readable(self.tokens, self.text, self.offsets, self.special)

    def words(self) -> Attribution:
        """Sums over the tokens of each word: a record with one score per word and special token.

        Sums suit additive scores, such as LRP. The removal of a whole word is another question, because
        pieces interact: `attribute(..., method="loo", unit="word")` answers it.

        Raises
        ------
        InputError : a record without offsets, such as one of an image.
        """
        return self.spans("word")

    def spans(self, spans: Sequence[Any] | str) -> Attribution:
        """Sums over spans (phrases or pairs of character positions), in reading order, or over "sentence".

        Raises
        ------
        InputError : a phrase that does not occur exactly once; spans that overlap or have no token; no
            offsets.
        """
        of_text: dict[str, Any] = {"tokens": self.tokens, "text": self.text, "offsets": self.offsets}
        units = units_of("Attribution", spans, special=self.special, **of_text)
        return self.over(units, spans if isinstance(spans, str) else "span")

    def over(self, units: Units, named: str) -> Attribution:
        """Sums over units of its tokens, which are called so."""
        return replace(
            self,
            tokens=units.names,
            scores=units.sums(self.scores),
            special=units.special,
            offsets=units.offsets,
            parts={name: units.sums(values) for name, values in self.parts.items()},
            choices={**self.choices, "summed over": named},
        )

    def top(self, k: int = 5, *, by: str = "size") -> list[tuple[str, float]]:
        """The k tokens with the largest |score| (`by="size"`), or the most for or against the class.

        Special tokens are left out. So are scores of the other sign for "for" and "against".
        """
        choose("Attribution.top", "by", by, RANKS)
        keys = {"size": np.abs(self.scores), "for": self.scores, "against": -self.scores}[by]
        places = [i for i in ranking(keys) if not self.special[i]]
        asked = [i for i in places if by == "size" or keys[i] > 0]
        pieces = self.pieces
        return [(pieces[i], float(self.scores[i])) for i in asked[:k]]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain lists, numbers and strings."""
        return {name: _as_lists(value) for name, value in self._state().items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Attribution:
        """Return the record from which `to_dict` made these values."""
        return cls(**values)

    def to_json(self) -> str:
        """The record as one line of JSON, which has neither NaN nor infinity (`ValueError`)."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Attribution:
        """Return the record from which `to_json` made this text."""
        return cls.from_dict(json.loads(text))

    def save(self, path: str | os.PathLike, *, title: str | None = None) -> None:
        """Save a heat map as `.html`, `.svg`, `.png` or `.pdf`, or the record as `.json`.

        Several records go into one figure by `token_heatmap(records, titles=...).save(path)`.

        Raises
        ------
        InputError : another ending, or a folder that does not exist.
        """
        from lrp_companion.show import tokens  # the one import upward; pyproject.toml names it

        if tokens.ending("Attribution.save", path) == ".json":
            tokens.write("Attribution.save", path, (self.to_json() + "\n").encode())
            return
        with extra("Attribution.save"):
            tokens.token_heatmap(self, titles=None if title is None else [title]).save(path)


def differences(one: Attribution, other: Attribution) -> list[str]:
    """In what two records differ that explain different numbers; empty if they can be compared.

    They can where tokens, class, output, contrast, model and the model's logit are the same. A method whose
    record names no output, such as rollout, goes with every output.

    >>> record = Attribution(("[CLS]", "fine"), [0.1, -0.25], 1, 2.5, [True, False], "loo")
    >>> differences(record, replace(record, target=0, logit=1.0))
    ['class (1 and 0)', 'logit (2.5 and 1)']
    """
    of_output = all("output" in record.choices for record in (one, other))
    told: dict[str, list[Any]] = {"class": [one.target, other.target]}
    models = [record.details.get("model") for record in (one, other)]
    told |= {"model": models} if None not in models else {}  # a record made by hand may name none
    for choice in ("output", "contrast") if of_output else ():
        told[choice] = [record.choices.get(choice) for record in (one, other)]
    out = [] if one.tokens == other.tokens else [f"tokens ({len(one.tokens)} and {len(other.tokens)})"]
    out += [f"{name} ({a} and {b})" for name, (a, b) in told.items() if a != b]
    half = any("float16" in str(record.details.get("dtype")) for record in (one, other))
    if not math.isclose(one.logit, other.logit, rel_tol=0.1 if half else 1e-3, abs_tol=0.1 if half else 1e-3):
        out.append(f"logit ({one.logit:.4g} and {other.logit:.4g})")
    return out


def _as_lists(value: Any) -> Any:
    """Plain lists, numbers and strings."""
    if isinstance(value, Mapping):
        return {key: _as_lists(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_as_lists(inner) for inner in value] if isinstance(value, tuple) else value


class Completion(list[Attribution]):
    """One record per token of a completion, each explained from all tokens before it; made by `attribute`.

    The record of token t has a score for each token of the prompt and for the t - 1 tokens of the
    completion before it (with another `unit`, for each unit of these).

    >>> more = {"details": {"label": " film"}}
    >>> first = Attribution(("a", " fine"), [0.5, 1.0], 7, 2.0, [False] * 2, "loo", **more)
    >>> tokens, more = ("a", " fine", " film"), {"details": {"label": "."}}
    >>> second = Attribution(tokens, [0.0, 0.25, 1.0], 3, 1.0, [False] * 3, "loo", **more)
    >>> answer = Completion([first, second])
    >>> answer.text, answer.sum().scores.tolist()
    (' film.', [0.5, 1.25, 1.0])
    """

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the completion, as text."""
        return tuple(str(record.details["label"]) for record in self)

    @property
    def text(self) -> str:
        """The completion, as it was given or written."""
        return "".join(str(r.details.get("text", r.details["label"])) for r in self)

    def table(self) -> xr.DataArray:
        """The scores as a labelled array: token of the completion x token before it; NaN after it."""
        import xarray

        rows = np.full((len(self), len(self[-1].tokens)), np.nan)
        for row, record in zip(rows, self, strict=True):
            row[: len(record.scores)] = record.scores
        axes = {"completion": list(self.tokens), "token": list(self[-1].pieces)}
        return xarray.DataArray(rows, axes, ("completion", "token"), name=self[0].method)

    def sum(self) -> Attribution:
        """One map of the whole completion: the sum of its records, which explains the sum of what they
        explain; its `logit` is the sum of their logits.
        """
        last = self[-1]

        def total(of: Any) -> np.ndarray:
            out = np.zeros(len(last.tokens))
            for record in self:
                values = of(record)
                out[: len(values)] += values
            return out

        return replace(
            last,
            scores=total(lambda record: record.scores),
            parts={name: total(lambda record, name=name: record.parts[name]) for name in last.parts},
            logit=sum(record.logit for record in self),
            choices={**last.choices, "summed over": "completion"},
            details={**last.details, "label": self.text},
        )

    def to_json(self) -> str:
        """All records as one line of JSON."""
        return json.dumps([record.to_dict() for record in self], ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Completion:
        """Return the records from which `to_json` made this text."""
        return cls([Attribution.from_dict(row) for row in json.loads(text)])

    def save(self, path: str | os.PathLike) -> None:
        """Save as `.html` (click a token of the completion, or move to it with the arrow keys), `.svg`,
        `.png` or `.pdf` (the sum, then a row for each token), or the records as `.json`.

        Raises
        ------
        InputError : another ending, or a folder that does not exist.
        """
        with extra("Completion.save"):
            from lrp_companion.show import tokens  # upward, as `Attribution.save`

            kind = tokens.ending("Completion.save", path)
            if kind == ".json":
                tokens.write("Completion.save", path, (self.to_json() + "\n").encode())
            elif kind == ".html":
                from lrp_companion.widgets import TokenHeatmap

                widget = TokenHeatmap(self)
                widget.save(path)
                widget.close()  # or it would when Python ends, without its modules
            else:
                tokens.token_heatmap(self).save(path)

    def __repr__(self) -> str:
        return f"Completion({self.text!r}, method={self[0].method!r}, tokens={len(self)})"

"""The primer's worked example: every printed number is recomputed, from the rules or by arithmetic."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from lrp_companion import rules

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "book/primer.md").read_text(encoding="utf-8")
KEYS = np.array([1.0, 1.0, 2.0])


def agrees(printed: str, value: float) -> bool:
    """The printed number is the value, rounded to the digits that are printed."""
    digits = len(printed.partition(".")[2])
    return (
        abs(float(printed) - value) <= 0.5 * 10**-digits + 1e-12
        if digits
        else abs(float(printed) - value) < 1e-9
    )


def table(name: str) -> dict[str, list[str]]:
    """Rows of the table behind the marker `<!-- example: name -->`, without its head: label to cells."""
    (text,) = re.findall(rf"<!-- example: {name} -->\n((?:\|.*\n)+)", PAGE)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    return {row[0]: row[1:] for row in rows}


def head(values: list[float]) -> dict[str, np.ndarray | float]:
    """The example's attention head through `lrp_companion.rules`; LOO by running the head without a key."""
    v = torch.tensor(values, dtype=torch.float64)[:, None]
    k = torch.tensor(KEYS)[:, None]
    q = torch.tensor([[math.log(2)]], dtype=torch.float64)
    z = q @ k.mT
    a = z.softmax(-1)
    o = a @ v
    ones = torch.ones_like(o)
    g_a, g_v = rules.matmul(ones, a, v, o)
    g_z = rules.softmax(g_a, a)
    g_q, g_k = rules.matmul(g_z, q, k.mT, z)
    relevance = {"R_v": v * g_v, "R_k": k * g_k.mT, "R_a": (a * g_a).mT, "R_z": (z * g_z).mT}
    out: dict[str, np.ndarray | float] = {key: x[:, 0].numpy() for key, x in relevance.items()}
    out |= {
        "v": v[:, 0].numpy(),
        "z": z[0].numpy(),
        "a": a[0].numpy(),
        "f": o.item(),
        "g_a": g_a[0].numpy(),
        "g_z": g_z[0].numpy(),
    }
    out["R_q"] = np.array([(q * g_q).item(), 0.0, 0.0])
    out["attnlrp"] = out["R_v"] + out["R_k"] + out["R_q"]
    out["cp"] = (v * rules.attention_values(ones, a, o))[:, 0].numpy()
    kept = [[j for j in range(3) if j != i] for i in range(3)]
    out["loo"] = np.array([o.item() - (z[:, keep].softmax(-1) @ v[keep]).item() for keep in kept])
    return out


@pytest.mark.parametrize("name", ["correlations", "exercise correlations"])
def test_correlations(name: str) -> None:
    ((label, cells),) = table(name).items()
    x = head([float(number) for number in re.findall(r"-?\d+", label)])
    for cell, method in zip(cells, ("attnlrp", "cp"), strict=True):
        assert agrees(cell, np.corrcoef(x[method], x["loo"])[0, 1])


EXAMPLE, EXERCISE = head([2, -6, 8]), head([8, 4, 2])
TABLES: dict[str, dict[str, tuple[np.ndarray, bool]]] = {  # rows: values, and whether their sum is printed
    "forward": {
        "key $k_i$": (KEYS, False),
        "value $v_i$": (EXAMPLE["v"], False),
        "score $z_i = q\\,k_i$": (EXAMPLE["z"], False),
        "weight $a_i$": (EXAMPLE["a"], True),
        "contribution $a_i v_i$": (EXAMPLE["a"] * EXAMPLE["v"], True),
    },
    "attnlrp": {
        "$g_{a_i} = \\tfrac12 v_i$": (EXAMPLE["g_a"], False),
        "$R_{a_i} = a_i\\, g_{a_i}$": (EXAMPLE["R_a"], True),
        "$R_{v_i} = v_i\\, g_{v_i}$": (EXAMPLE["R_v"], True),
        "$g_{z_i} = a_i (g_{a_i} - 1.5)$": (EXAMPLE["g_z"], True),
        "$R_{z_i} = z_i\\, g_{z_i}$": (EXAMPLE["R_z"], True),
        "$R_{k_i} = \\tfrac12 R_{z_i}$": (EXAMPLE["R_k"], True),
        "$R_q = \\tfrac12 \\sum_i R_{z_i}$": (EXAMPLE["R_q"], True),
    },
    "maps": {
        "AttnLRP, $R_v + R_k + R_q$": (EXAMPLE["attnlrp"], True),
        "CP-LRP, $a_i v_i$": (EXAMPLE["cp"], True),
        "LOO": (EXAMPLE["loo"], True),
    },
    "exercise": {
        "$g_{z_i}$": (EXERCISE["g_z"], True),
        "AttnLRP": (EXERCISE["attnlrp"], True),
        "CP-LRP": (EXERCISE["cp"], True),
        "LOO": (EXERCISE["loo"], True),
    },
}


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_of_a_table_is_what_the_rules_give(name: str) -> None:
    rows = table(name)
    assert set(rows) == set(TABLES[name])
    for label, (values, has_sum) in TABLES[name].items():
        cells = rows[label]
        assert len(cells) == 4 and bool(cells[3]) == has_sum, label
        for cell, value in zip(cells, [*values, values.sum()], strict=True):
            assert cell == "" or agrees(cell, value), f"{label}: the page has {cell}, the rules give {value}"


def arithmetic() -> list[str]:
    """Inline maths that is nothing but numbers, operators, fractions and equal signs."""
    pieces = re.findall(r"(?<!\$)\$([^$\n]+)\$(?!\$)", PAGE)
    return [
        p
        for p in pieces
        if "=" in p and re.fullmatch(r"[\d\s.()+\-=]+", re.sub(r"\\cdot|\\tfrac|[{}]", "", p))
    ]


def evaluate(tex: str) -> float:
    """A number from TeX arithmetic."""
    plain = re.sub(r"\\tfrac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", tex)
    plain = re.sub(r"\\tfrac(\d)(\d)", r"(\1/\2)", plain).replace(r"\cdot", "*")
    assert re.fullmatch(r"[\d\s.()+\-*/]+", plain), tex
    return eval(plain, {"__builtins__": {}})


def test_every_equality_between_numbers_holds() -> None:
    pieces = arithmetic()
    assert len(pieces) >= 9
    for piece in pieces:
        first, *others = (evaluate(side) for side in piece.split("="))
        assert others == pytest.approx([first] * len(others), abs=1e-12), piece


def test_code_of_the_page_gives_the_maps_of_the_page() -> None:
    (code,) = re.findall(r"<!-- example: code -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, torch.Tensor] = {}
    exec(compile(code, "primer.md", "exec"), names)
    x = EXAMPLE
    assert names["o"].item() == pytest.approx(3)
    assert names["attnlrp"][:, 0].numpy() == pytest.approx(x["attnlrp"])
    assert names["cp_lrp"][:, 0].numpy() == pytest.approx(x["cp"])

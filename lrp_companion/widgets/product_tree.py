"""A product of a few numbers as a tree that the reader regroups: relevance, LOO, integrated gradients."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import traitlets

from lrp_companion.arrays import NoNumbers, real_array
from lrp_companion.checks import InputError, shown
from lrp_companion.toys.product import Product, flat, leaves_of, parse, shares, write
from lrp_companion.widgets.base import Widget, check_address

MOST_FACTORS = 5
LARGEST_FACTOR = 1e60  # its fifth power is still a finite float


class ProductTree(Widget, front="product_tree"):
    """A product whose grouping is changed by clicking; relevance follows the tree (the uniform rule, the
    paper's Eq. 3).

    Parameters
    ----------
    values : two to five numbers, at most 1e60 in size.
    grouping : which of them are multiplied first, in the notation of `product.parse`, the factors in order.
    address : the widget's name in the page.

    Attributes
    ----------
    values, grouping : what the reader sees and changes. If the number of values changes, the grouping becomes
        one flat product.

    Raises
    ------
    InputError : values or a grouping that are not as above, or that do not fit together.

    >>> tree = ProductTree((2, 3, 4), "x1 (x2 x3)")
    >>> tree.values = [2, 3, 4, 5]
    >>> tree
    ProductTree(x1 x2 x3 x4 = 120)
    """

    links = ("values", "grouping")
    values = traitlets.List(traitlets.Float()).tag(sync=True)
    grouping = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, values: Sequence[float] = (2, 3, 4), grouping: str = "(x1 x2) x3", *, address: str = "product"
    ) -> None:
        numbers = _check_values(values)
        super().__init__(
            values=numbers,
            grouping=_check_grouping(grouping, len(numbers)),
            address=check_address("ProductTree", address),
        )

    @traitlets.validate("values")
    def _validate_values(self, proposal: Any) -> list[float]:
        return _check_values(proposal["value"])

    @traitlets.validate("grouping")
    def _validate_grouping(self, proposal: Any) -> str:
        return _check_grouping(proposal["value"], len(self.values))

    @traitlets.observe("values")
    def _regroup(self, change: Any) -> None:
        if self.grouping and len(leaves_of(parse(self.grouping))) != len(self.values):
            self.grouping = write(flat(len(self.values)))

    def _product(self) -> Product:
        return Product(self.values, self.grouping)

    def fallback(self) -> str:
        """Return the factors, their shares and the three attributions as a table."""
        product = self._product()
        rows = {"share of f": [*map(str, shares(product.grouping)), "1"]}
        for name, scores in (
            ("LRP", product.relevance()),
            ("IG from zero", product.integrated_gradients()),
            ("LOO", product.loo()),
        ):
            rows[name] = [f"{number:.4g}" for number in (*scores, sum(scores))]
        head = "".join(f'<th scope="col">x{k + 1} = {value:.4g}</th>' for k, value in enumerate(self.values))
        body = "".join(
            f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
            for name, cells in rows.items()
        )
        caption = (
            f"{html.escape(self.grouping)} = {product.value:.4g}: relevance by the uniform rule, "
            f"integrated gradients and LOO of the same {len(self.values)} factors"
        )
        return (
            f"<table><caption>{caption}</caption><thead><tr><td></td>{head}"
            f'<th scope="col">sum</th></tr></thead><tbody>{body}</tbody></table>'
        )

    def summary(self) -> str:
        """Return the grouping and the product."""
        return f"{self.grouping} = {self._product().value:.4g}"


def _check_values(values: Any) -> list[float]:
    try:
        numbers = real_array("ProductTree", "values", values).ravel().tolist()
    except NoNumbers:
        numbers = []
    if not (2 <= len(numbers) <= MOST_FACTORS and all(abs(number) <= LARGEST_FACTOR for number in numbers)):
        raise InputError(
            "ProductTree",
            got=f"values {shown(values)}",
            expected=f"2 to {MOST_FACTORS} numbers of at most {LARGEST_FACTOR:g} in size",
            hint="pass e.g. (2, 3, 4)",
        )
    return numbers


def _check_grouping(grouping: str, count: int) -> str:
    tree = parse(grouping)
    if leaves_of(tree) != tuple(range(count)):
        raise InputError(
            "ProductTree",
            got=f"grouping {shown(grouping)}",
            expected=f"the factors x1 to x{count}, in order",
            hint="write it like '(x1 x2) x3'",
        )
    return write(tree)

"""A product of a few numbers as a tree that the reader regroups: relevance, LOO, integrated gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from lrp_companion.toys.product import Product, flat, leaves_of, parse, write
from lrp_companion.widgets.base import Widget
from lrp_companion.widgets.still import bars


class ProductTree(Widget, front="product_tree"):
    """A product whose grouping is changed by clicking; relevance follows the tree (the uniform rule, the
    paper's Eq. 3).

    Parameters
    ----------
    values : two to five numbers, at most 1e60 in size: the fifth power of that is still a finite float.
    grouping : which of them are multiplied first, in the notation of `product.parse`, the factors in order.
    address : the widget's name in the page.

    Attributes
    ----------
    values, grouping : what the reader sees and changes. If the number of values changes, the grouping becomes
        one flat product.

    >>> tree = ProductTree((2, 3, 4), "x1 (x2 x3)")
    >>> tree.values = [2, 3, 4, 5]
    >>> tree
    ProductTree(x1 x2 x3 x4 = 120)
    """

    links = ("values", "grouping")
    values = traitlets.List(traitlets.Float(min=-1e60, max=1e60), minlen=2, maxlen=5).tag(sync=True)
    grouping = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, values: Sequence[float] = (2, 3, 4), grouping: str = "(x1 x2) x3", *, address: str = "product"
    ) -> None:
        super().__init__(values=list(values), grouping=grouping, address=address)

    @traitlets.validate("grouping")
    def _check_grouping(self, proposal: Any) -> str:
        tree, count = parse(proposal["value"]), len(self.values)
        if leaves_of(tree) != tuple(range(count)):
            got = f"got grouping {proposal['value']!r}"
            raise traitlets.TraitError(f"{got}; expected the factors x1 to x{count}, in order")
        return write(tree)

    @traitlets.observe("values")
    def _regroup(self, change: Any) -> None:
        if self.grouping and len(leaves_of(parse(self.grouping))) != len(self.values):
            self.grouping = write(flat(len(self.values)))

    def _product(self) -> Product:
        return Product(self.values, self.grouping)

    def fallback(self) -> str:
        """Return a picture of the three attributions."""
        product, n = self._product(), len(self.values)
        maps = product.relevance(), product.integrated_gradients(), product.loo()
        rows = dict(zip(("LRP", "IG from zero", "LOO"), maps, strict=True))
        names = [f"x{k + 1} = {value:.4g}" for k, value in enumerate(self.values)]
        caption = (
            f"{self.grouping} = {product.value:.4g}: relevance by the uniform rule, "
            f"integrated gradients and LOO of the same {n} factors"
        )
        return bars(rows, names, caption)

    def summary(self) -> str:
        """Return the grouping and the product."""
        return f"{self.grouping} = {self._product().value:.4g}"

"""The paper's three ways through the layers. No torch."""

from __future__ import annotations

PATHS = ("front-to-back", "back-to-front", "single")


def path_masks(layers: int) -> dict[str, list[frozenset[int]]]:
    """The paper's three paths: layers bypassed from the front, from the back, and one at a time.

    >>> [sorted(mask) for mask in path_masks(3)["back-to-front"]]
    [[3], [2, 3], [1, 2, 3]]
    """
    numbers = range(1, layers + 1)
    return {
        "front-to-back": [frozenset(range(1, k + 1)) for k in numbers],
        "back-to-front": [frozenset(range(k, layers + 1)) for k in reversed(numbers)],
        "single": [frozenset([k]) for k in numbers],
    }


def mask_label(mask: frozenset[int]) -> str:
    """Bypassed layers in words.

    >>> mask_label(frozenset()), mask_label(frozenset([3])), mask_label(frozenset([1, 2, 3]))
    ('none', '3', '1 to 3')
    """
    if len(mask) > 1 and max(mask) - min(mask) == len(mask) - 1:
        return f"{min(mask)} to {max(mask)}"
    return ", ".join(map(str, sorted(mask))) or "none"

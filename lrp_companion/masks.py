"""Sets of bypassed layers (masks): their numbers, their names, and the paper's three paths. No torch.

A mask is a set of layers, counted from 1, whose attention is held constant. Its number has bit l-1 set if
layer l is in it. So number 0 is AttnLRP and 2**L - 1 is CP-LRP.
"""

from __future__ import annotations

NONE: frozenset[int] = frozenset()
"""No layer bypassed: AttnLRP."""
PATHS = ("front-to-back", "back-to-front", "single")


def mask_number(layers: frozenset[int] | set[int]) -> int:
    """The number whose bit l-1 is set if layer l (from 1) is bypassed."""
    return sum(1 << (layer - 1) for layer in layers)


def bypassed(mask: int) -> frozenset[int]:
    """The layers (from 1) whose bit is set.

    >>> sorted(bypassed(5))
    [1, 3]
    """
    return frozenset(bit + 1 for bit in range(int(mask).bit_length()) if mask >> bit & 1)


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


def masks_on_paths(layers: int) -> list[frozenset[int]]:
    """Every mask on the paper's three paths once, AttnLRP (none) first."""
    on_paths = [mask for path in path_masks(layers).values() for mask in path]
    return list(dict.fromkeys([NONE, *on_paths]))


def mask_label(mask: frozenset[int]) -> str:
    """Bypassed layers in words.

    >>> mask_label(frozenset()), mask_label(frozenset([3])), mask_label(frozenset([1, 2, 3]))
    ('none', '3', '1 to 3')
    """
    if len(mask) > 1 and max(mask) - min(mask) == len(mask) - 1:
        return f"{min(mask)} to {max(mask)}"
    return ", ".join(map(str, sorted(mask))) or "none"

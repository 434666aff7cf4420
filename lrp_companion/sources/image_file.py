"""An image in a file, as pixels that a model of images can be given."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from lrp_companion.paths import as_path
from lrp_companion.schema import CompanionError, InputError

LARGEST_SIDE = 4096
SMALLER = "resize it to the model's size"


class ManyPixels(Exception):
    """An image that claims more pixels than Pillow decodes."""


class Unreadable(Exception):
    """Bytes that are not an image."""


def read_image(file: Any, *, channels: int, operation: str = "explain") -> np.ndarray:
    """The pixels of an image file: whole numbers (C, H, W), or the array of a `.npy` file as it is.

    Parameters
    ----------
    file : a `.npy` file of one image, or a PNG, JPEG or other format that Pillow reads.
    channels : how many the model reads: 1 (made grey) or 3 (made RGB); a `.npy` file is not changed.

    Raises
    ------
    InputError : no such file; one that is not an image; sides beyond 4,096 pixels; a model of other channels.
    """
    path = as_path(operation, "image", file)

    def refuse(got: str, hint: str) -> InputError:
        expected = "an image: a .npy file of an array, or a PNG or JPEG"
        return InputError(operation, got=f"{path.name!r}, {got}", expected=expected, hint=hint)

    if not path.is_file():
        raise refuse("which is not a file", "this model reads images: name a file")
    if path.suffix.lower() == ".npy":
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError):
            raise refuse("which holds no array", "write it with numpy.save") from None
    if channels not in (1, 3):
        raise refuse(f"for a model of {channels} channels", "save the array with numpy.save")

    def check(width: int, height: int) -> None:
        if max(width, height) > LARGEST_SIDE:
            raise refuse(f"of {width} x {height} pixels", SMALLER)

    try:
        pixels = decoded(path, mode="L" if channels == 1 else "RGB", check=check)
    except ManyPixels:
        raise refuse("of very many pixels", SMALLER) from None
    except Unreadable:
        raise refuse("which cannot be read as an image", "save it again as PNG") from None
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def decoded(source: Any, *, mode: str, check: Callable[[int, int], None]) -> np.ndarray:
    """The pixels of a file, or of bytes to read from: (H, W) in mode "L", (H, W, 3) in mode "RGB".

    Parameters
    ----------
    check : is given width and height, and may refuse them before the pixels are made: a few bytes may claim
        billions.

    Raises
    ------
    ManyPixels : Pillow refuses so many.
    Unreadable : this is not an image.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(source)
            check(*image.size)
            return np.asarray(image.convert(mode))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ManyPixels from None
    except CompanionError:
        raise
    except (SyntaxError, ValueError, OSError):
        # Pillow raises an OSError for what it cannot read, and a SyntaxError for a broken PNG chunk.
        raise Unreadable from None

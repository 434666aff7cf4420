"""Fixtures: small random classifiers, written to disk once per run and loaded as a user would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import Phase, settings
from tiny_models import FAMILIES, save

if TYPE_CHECKING:
    from lrp_companion.models.pretrained import Classifier

torch.set_num_threads(1)  # the models are tiny: threads only wait for each other
settings.register_profile("book", deadline=None, derandomize=True, max_examples=25)
settings.register_profile(
    "mutations", parent=settings.get_profile("book"), phases=[Phase.explicit, Phase.generate], database=None
)  # no shrinking
settings.load_profile("book")

Folder = Callable[..., Path]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """`model_folder("bert", layers=3)`: a saved random classifier, made once."""
    made: dict[tuple, Path] = {}

    def folder(family: str = "bert", **shape: object) -> Path:
        key = (family, *sorted(shape.items()))
        if key not in made:
            made[key] = save(tmp_path_factory.mktemp(family), family, **shape)
        return made[key]

    return folder


@pytest.fixture(scope="session", params=FAMILIES)
def family_clf(request: pytest.FixtureRequest, model_folder: Folder) -> Classifier:
    """A two-layer classifier of each family, float64."""
    from lrp_companion.models.pretrained import load_classifier

    return load_classifier(model_folder(request.param), dtype="float64")


@pytest.fixture(scope="session")
def clf(model_folder: Folder) -> Classifier:
    """A three-layer BERT with three classes, float64."""
    from lrp_companion.models.pretrained import load_classifier

    return load_classifier(model_folder("bert", layers=3, labels=3), dtype="float64")

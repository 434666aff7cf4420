"""Fixtures: small random classifiers, written to disk once per run and loaded as a user would."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from browsing import FLAGS, HTML, complaints_of_axe, missing, open_page, serve, widget_page
from hypothesis import Phase, settings
from tiny_models import BERT_LIKE, save

if TYPE_CHECKING:
    from lrp_companion.loading.classifier import Classifier

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


@pytest.fixture(scope="session", params=BERT_LIKE)
def family_clf(request: pytest.FixtureRequest, model_folder: Folder) -> Classifier:
    """A two-layer classifier of each family in BERT's order, float64."""
    from lrp_companion.loading.classifier import load_classifier

    return load_classifier(model_folder(request.param), dtype="float64")


@pytest.fixture(scope="session")
def clf(model_folder: Folder) -> Classifier:
    """A three-layer BERT with three classes, float64."""
    from lrp_companion.loading.classifier import load_classifier

    return load_classifier(model_folder("bert", layers=3, labels=3), dtype="float64")


@pytest.fixture(scope="session")
def html() -> Path:
    """The built book."""
    if not (HTML / "index.html").is_file():
        missing("there is no built book; run make book")
    return HTML


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    programs = [
        path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))
    ]
    if not programs:
        missing("there is no Chromium on this machine")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed; install the extra dev")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=programs[0], args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`show(widget)`: its page in Chromium; nothing went wrong in it, and axe has no complaint."""
    opened = []

    def open_widget(
        widget: Any, hash: str = "", *, theme: str = "light", axe: bool = False, **options: Any
    ) -> Any:
        context = browser.new_context(**options)
        page, watch = open_page(context, widget_page(widget, tmp_path, theme=theme) + hash)
        opened.append((page, watch, axe))
        page.wait_for_selector("[data-ready]")
        return page

    yield open_widget
    for page, watch, axe in opened:
        assert not axe or not complaints_of_axe(page, ".lrp-widget")
        assert watch.nothing(), watch
        page.context.close()


@pytest.fixture(scope="session")
def site(html: Path) -> Iterator[str]:
    yield from serve(html)

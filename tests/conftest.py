"""Fixtures: small random classifiers, written to disk once per run and loaded as a user would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from browsing import HTML, Desk, chromium, complaints_of_axe, missing, serve, widget_page
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


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """`refused(arguments)`: what the command says as it refuses them: one line, nothing else, exit code 2."""
    from lrp_companion.cli import main

    def told(arguments: Sequence[str], code: int = 2) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == code
        said = capsys.readouterr()
        (line,) = (text for text in said.err.splitlines() if text.strip())
        assert not said.out
        return line

    return told


@pytest.fixture(scope="session")
def kept() -> Callable[[str], Path]:
    """A folder of `training` by its name, with the weights that `make weights` takes from the history."""

    def folder(name: str) -> Path:
        place = Path(__file__).parents[1] / "training" / name
        if not any([*place.glob("*.safetensors"), *place.glob("*.npz")]):
            pytest.skip("this history does not have the weights: make weights")
        return place

    return folder


@pytest.fixture(scope="session")
def html() -> Path:
    """The built book."""
    if not (HTML / "index.html").is_file():
        missing("there is no built book; run make book")
    return HTML


@pytest.fixture(scope="session")
def deno() -> str:
    from front.check import find_deno, in_ci, no_deno

    path = find_deno()
    if path is None and in_ci():
        pytest.fail(f"this is continuous integration, but {no_deno()}")
    return path or missing(no_deno())


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("fonts")) as running:
        yield running


@pytest.fixture(scope="session")
def desk(browser: Any) -> Desk:
    return Desk(browser)


@pytest.fixture
def visit(desk: Desk) -> Iterator[Callable[..., Any]]:
    """`visit(address)`: the page in Chromium; until the test ends, nothing goes wrong in it."""
    with ExitStack() as stack:
        opened = []

        def open_address(address: str, *, axe: str = "", **options: Any) -> Any:
            opened.append((*stack.enter_context(desk.opened(address, **options)), axe))
            return opened[-1][0]

        yield open_address
        for page, watch, axe in opened:
            assert not axe or not complaints_of_axe(page, axe)
            assert watch.nothing(), watch


@pytest.fixture
def show(visit: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """`show(widget)`: its page, visited; with `axe`, axe has no complaint of it either."""

    def open_widget(
        widget: Any, hash: str = "", *, theme: str = "light", axe: bool = False, **options: Any
    ) -> Any:
        address = widget_page(widget, tmp_path, theme=theme) + hash
        page = visit(address, axe=".lrp-widget" if axe else "", **options)
        page.wait_for_selector("[data-ready]")
        return page

    return open_widget


@pytest.fixture(scope="session")
def site(html: Path) -> Iterator[str]:
    yield from serve(html)

"""A real browser for tests: Chromium, every other host blocked, and everything that goes wrong in a page
written down.

Tests skip with the reason where Chromium or a built book is missing, and fail instead where
LRP_REQUIRE_BROWSER=1.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lrp_companion.widgets.base import Widget, front_end, page_script

PATIENCE = 120_000
"""Milliseconds after which a wait that should succeed has failed: many times what a busy machine needs."""
ROOT = Path(__file__).resolve().parent.parent
HTML = ROOT / "_build" / "html"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>{fonts}</dir><cachedir>{cache}</cachedir>
<alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
<match><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>
<match target="font"><edit name="hinting"><bool>false</bool></edit></match>
</fontconfig>
"""
"""Matplotlib's fonts and no other: what a page measures does not hang on the fonts of the machine."""


def missing(reason: str) -> Any:
    """Skip, unless this run must not do without a browser."""
    if os.environ.get("LRP_REQUIRE_BROWSER") == "1":
        pytest.fail(f"LRP_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@contextmanager
def chromium(folder: Path) -> Iterator[Any]:
    """Chromium with the fonts that the tests bring, and with patience; `folder` keeps their list."""
    programs = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, programs)), None)
    if program is None:
        missing("there is no Chromium on this machine")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed; install the extra dev")
    import matplotlib

    listed = folder / "fonts.conf"
    listed.write_text(FONTS.format(fonts=Path(matplotlib.get_data_path(), "fonts", "ttf"), cache=folder))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=FLAGS, env={**os.environ, "FONTCONFIG_FILE": str(listed)}
        )
        browser.on("context", lambda context: context.set_default_timeout(PATIENCE))
        yield browser
        browser.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}

    def log_message(self, *args: Any) -> None:
        pass


def serve(folder: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@contextmanager
def jupyterlab(work: Path, **variables: str) -> Iterator[str]:
    """JupyterLab's address in a folder; settings, logs and kernels' files lie beside it."""
    home = work.parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
    settings = {name: str(home / name) for name in (*names, "JUPYTERLAB_SETTINGS_DIR")}
    whole = home / "JUPYTERLAB_SETTINGS_DIR" / "@jupyterlab" / "notebook-extension"
    whole.mkdir(parents=True)  # all cells stand in the page, also those out of sight
    (whole / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    options = f"--no-browser --allow-root --ip=127.0.0.1 --port={port} --IdentityProvider.token="
    options += " --LabApp.news_url=None --LabApp.extension_manager=readonly"
    command = [sys.executable, "-m", "jupyterlab", *options.split(), f"--ServerApp.root_dir={work}"]
    environment = {**os.environ, **settings, "OMP_NUM_THREADS": "1", **variables}
    with open(home / "log", "w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/api", timeout=1).close()
                break
            except (urllib.error.URLError, OSError):
                assert server.poll() is None, (home / "log").read_text()[-2000:]
                time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:  # a kernel that is at work holds it up
            server.kill()


@dataclass
class Watch:
    """Everything that went wrong while a page was open."""

    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def nothing(self) -> bool:
        return not (self.outside or self.complaints or self.missing)


def watched(page: Any) -> Watch:
    """What goes wrong in a page from now on. No other host answers; that one was asked is written down."""
    watch = Watch()

    def asked(request: Any) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob", "file") and address.hostname != "127.0.0.1":
            watch.outside.append(request.url)

    def told(message: Any) -> None:
        if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):
            watch.complaints.append(message.text)

    page.on("request", asked)
    page.on("console", told)
    page.on("pageerror", lambda error: watch.complaints.append(str(error)))
    page.on("response", lambda answer: watch.missing.append(answer.url) if answer.status >= 400 else None)
    page.on("requestfailed", lambda request: watch.missing.append(request.url))
    return watch


def load(page: Any, url: str) -> None:
    page.goto(url, wait_until="load")
    page.evaluate("window.MathJax ? MathJax.startup.promise.then(() => null) : null")


def open_page(context: Any, url: str) -> tuple[Any, Watch]:
    page = context.new_page()
    watch = watched(page)
    load(page, url)
    return page, watch


class Desk:
    """Pages that are used again: a script that a page has loaded once is compiled, which is most of a load.

    Storage is emptied in between. After some visits there is a new page; one with other options
    than these has a context of its own.
    """

    VISITS = 12

    OPTIONS = {"viewport": {"width": 1280, "height": 720}, "color_scheme": "light"}

    def __init__(self, browser: Any) -> None:
        self.browser, self.free = browser, []

    @contextmanager
    def opened(self, address: str, **options: Any) -> Iterator[tuple[Any, Watch]]:
        if options.keys() - self.OPTIONS.keys():
            page, watch = open_page(self.browser.new_context(**options), address)
            yield page, watch
            page.context.close()
            return
        if not self.free:
            new = self.browser.new_context().new_page()
            self.free.append((new, watched(new), self.VISITS))
        page, watch, left = self.free.pop()
        size, scheme = ({**self.OPTIONS, **options}[name] for name in self.OPTIONS)
        page.set_viewport_size(size)
        page.emulate_media(media="screen", color_scheme=scheme, reduced_motion="no-preference")
        page.goto("about:blank")  # else an address that differs by its state alone is no load
        for kept in (watch.outside, watch.complaints, watch.missing):
            kept.clear()
        load(page, address)
        yield page, watch
        page.unroute_all()
        page.evaluate("localStorage.clear(); sessionStorage.clear()")
        for other in page.context.pages[1:]:
            other.close()
        if left > 1:
            self.free.append((page, watch, left - 1))
        else:
            page.context.close()


def pages_of(pdf: bytes) -> int:
    """How many pages a printed file has."""
    return len(re.findall(rb"/Type\s*/Page(?![a-z])", pdf))


def complaints_of_axe(page: Any, inside: str) -> list[str]:
    """Accessibility rules that axe-core, from a wheel, finds broken inside the elements of a selector."""
    if not page.evaluate("() => 'axe' in window"):
        import axe_playwright_python

        page.evaluate(
            (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
        )
    audit = page.evaluate(
        "inside => axe.run({include: [[inside]]}, {resultTypes: ['violations'], preload: false})", inside
    )
    return [
        f"{rule['id']}: {[node['html'][:120] for node in rule['nodes']][:3]}" for rule in audit["violations"]
    ]


def widget_page(widget: Widget, folder: Path, *, theme: str = "light") -> str:
    """Write one widget into a page of its own, as the book would, and return its address on disk."""
    css = front_end(widget.front, "css")
    ground = {"light": "#fff", "dark": "#121212"}[theme]
    page = folder / f"{widget.front}-{theme}.html"
    page.write_text(
        f'<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8">'
        f'<title>{widget.front}</title><meta name="viewport" content="width=device-width">'
        f"<style>body{{background:{ground};font:16px sans-serif}}{css}</style>"
        f"<main><h1>A widget</h1>{widget.page_html()}</main>"
        f"<script>{page_script(widget.front)}</script></html>",
        encoding="utf-8",
    )
    return page.as_uri()


def frames(page: Any, count: int) -> None:
    """Wait until the page was drawn that often: on a busy machine it takes longer."""
    page.evaluate("window.framesDrawn = 0")
    page.wait_for_function("count => ++framesDrawn > count", arg=count)  # asked in each frame


def resize(page: Any, width: int, height: int) -> None:
    """Give a page another size, and the time to lay itself out: a wide table turns into a list."""
    page.set_viewport_size({"width": width, "height": height})
    frames(page, 12)


def becomes(page: Any, read: Callable[[], Any], wanted: Any) -> None:
    """Wait until what is read of the page is what is wanted."""
    end = time.monotonic() + PATIENCE / 1000
    while read() != wanted and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert read() == wanted


def put(page: Any, **values: Any) -> None:
    """Set values of the first widget's state in the page, as Python would."""
    script = "document.querySelector('[data-companion-widget]').companion.model.set"
    page.evaluate(f"values => {{ for (const key in values) {script}(key, values[key]) }}", values)


def state_of(page: Any, key: str, *, place: int = 0) -> Any:
    """A value of a widget's state in the page."""
    return page.evaluate(
        "([key, place]) => "
        "document.querySelectorAll('[data-companion-widget]')[place].companion.model.get(key)",
        [key, place],
    )


def follow(context: Any, awake: dict[Any, Any], address: str, name: str, given: dict[str, str]) -> None:
    """Follow a link to a widget's state until the widget has that state.

    It is woken by the first address, which must bring it into view; after that only the address changes.
    """
    place, _, hash = address.partition("#")
    host, first = f'[data-address="{name}"]', (place, name) not in awake
    if first:
        awake[place, name] = open_page(context, address)
    page, watch = awake[place, name]
    page.evaluate("hash => { location.hash = hash }", hash)
    page.wait_for_selector(f"{host}[data-ready]")
    for key, text in given.items():
        page.wait_for_function(
            """([host, key, text]) => {
                const value = document.querySelector(host).companion.model.get(key);
                return [value].flat().map(x => typeof x === 'number' ? +x.toPrecision(6) : x).join() === text;
            }""",
            arg=[host, key, text],
        )
    if first:
        page.wait_for_function(
            "host => (b => b.bottom > 0 && b.top < innerHeight)"
            "(document.querySelector(host).getBoundingClientRect())",
            arg=host,
        )
    assert watch.nothing(), (address, watch)


def stroke(page: Any, start: tuple[float, float], right: float, down: float) -> float:
    """Draw a finger over the page; return how far the page scrolled."""
    finger, at = page.context.new_cdp_session(page), page.evaluate("scrollY")
    for k in range(9):
        point = {"x": start[0] + right * k / 8, "y": start[1] + down * k / 8}
        kind = "touchMove" if k else "touchStart"
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        page.wait_for_timeout(20)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    frames(page, 12)
    return float(page.evaluate("scrollY") - at)

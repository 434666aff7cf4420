"""The command `export-page`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from lrp_companion.checks import whole
from lrp_companion.cli import MODEL, Command, loaded
from lrp_companion.terminal import check_output, say, visible


def _options(add: Callable[..., Any]) -> None:
    add("--model", default="companion", help=MODEL)
    add("--out", required=True, metavar="FOLDER", help="a new folder for the page and the model")
    text = "a sample text to offer in the page; may be repeated"
    add("--example", action="append", default=[], metavar="TEXT", help=text)
    add("--title", help="the page's heading")
    text = "the page refuses texts with more tokens (default: 128)"
    add("--max-tokens", type=int, default=128, help=text)


def _carry_out(args: argparse.Namespace) -> None:
    from lrp_companion.sources import locate

    locate(args.model)
    from lrp_companion.page.live_page import export_page

    check_output()
    whole("export-page", "--max-tokens", args.max_tokens, least=3, hint="leave it out for 128")
    options = {"examples": args.example, "title": args.title, "max_tokens": args.max_tokens}
    page = export_page(loaded(args.model), args.out, **options)
    size = sum(path.stat().st_size for path in page.parent.rglob("*") if path.is_file())
    say(visible(f"{page}: opens in a browser, from disk or any static host ({size / 1e6:.0f} MB in all)"))


EXPORT_PAGE = Command(
    "write a page that explains texts with your classifier, in any browser and without a server",
    _options,
    _carry_out,
)

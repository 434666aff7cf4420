"""How long one change of LayerToggles takes in the browser, for 64 tokens and 12 layers, with layout.

Prints the median and the 90th percentile in milliseconds; a frame at 60 Hz has 16.7. Needs the extra dev and
Chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from browsing import FLAGS, widget_page

from lrp_companion import Attribution, Lattice, LayerToggles

TOKENS, LAYERS, REPEATS = 64, 12, 200
MEASURE = """([kind, repeats]) => {
    const host = document.querySelector('[data-companion-widget]'), model = host.companion.model, out = [];
    model.set('mode', kind);
    for (let k = 0; k < repeats; k++) {
        const amounts = Array.from({length: 12}, (_, i) => ((3 * k + 5 * i) % 21) / 20);
        const bypassed = amounts.flatMap((amount, i) => (amount > 0.5 ? [i + 1] : []));
        const start = performance.now();
        if (kind === 'switches') model.set('bypassed', bypassed); else model.set('amounts', amounts);
        host.getBoundingClientRect().height;
        out.push(performance.now() - start);
    }
    return out;
}"""


def main() -> None:
    """Measure both modes."""
    generator = np.random.default_rng(0)
    tokens, special = tuple(f"word{i}" for i in range(TOKENS)), [True, *[False] * (TOKENS - 2), True]
    scores = generator.normal(size=(2**LAYERS, TOKENS)).cumsum(0) / 50
    widget = LayerToggles(
        Lattice(tokens, scores, 0, 1.0, special),
        Attribution(tokens, generator.normal(size=TOKENS), 0, 1.0, special, "loo"),
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        programs = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        program = next(path for path in programs if path)
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page()
        page.goto(widget_page(widget, Path(folder)))
        page.wait_for_selector("[data-ready]")
        for kind in ("switches", "half-open"):
            times = np.array(page.evaluate(MEASURE, [kind, REPEATS]))
            spread = f"median {np.median(times):.1f} ms, 90th percentile {np.quantile(times, 0.9):.1f} ms"
            print(f"{kind}: {spread}, n = {REPEATS}")
        browser.close()


if __name__ == "__main__":
    main()

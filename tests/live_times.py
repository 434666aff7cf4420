"""How long a reader waits on the page "Try your own sentence", in Chromium: `python tests/live_times.py`.

From a cold page over http to r values for a typed sentence, then toggles and all 4,096 masks; tasks that hold
up the page; memory of the tab; the kernel's speed beside NumPy's on one thread. It wants a built book, and
prints; nothing fails on a slow machine.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from browsing import FLAGS, HTML, open_page, serve
from playwright.sync_api import sync_playwright

TEXT = "a slow start and a loud middle , but the last scene of this strange film is quietly unforgettable"
DONE = """() => { const panel = document.querySelector("section[aria-label]"); return panel &&
  panel.querySelector("[role=status]").textContent === "" &&
  [...panel.querySelectorAll(".lrp-row-title")].slice(1).every((title) => title.dataset.r) }"""
KERNEL = """async (size) => {
  const text = await (await fetch("../_static/live/companion/engine.js")).text();
  const from = text.indexOf("const ENGINE = "), content = text.slice(from + 15, text.indexOf(";\\n", from));
  const decoded = (kernel) => Uint8Array.from(atob(kernel), (c) => c.charCodeAt(0));
  const bytes = JSON.parse(content).kernels.map(decoded);
  const memory = new WebAssembly.Memory({ initial: 400 });
  const fit = bytes.find((one) => WebAssembly.validate(one));
  const imported = WebAssembly.Module.imports(new WebAssembly.Module(fit))[0];
  const module = await WebAssembly.instantiate(fit, { [imported.module]: { [imported.name]: memory } });
  const run = module.instance.exports.product_transposed, { m, n, k } = size;
  new Float32Array(memory.buffer).fill(0.5);
  const call = () => run(16, 4 * k, 1 << 20, 4 * k, 1 << 24, 4 * n, m, n, k, 1 << 19, 0);
  call();
  const start = performance.now();
  for (let i = 0; i < 20; i++) call();
  return (20 * 2 * m * n * k) / (performance.now() - start) / 1e6;
}"""


def seconds(page: Any, act: Any, condition: str, argument: Any = None) -> float:
    """How long it takes from an act until a condition holds, looked at in every frame."""
    start = time.perf_counter()
    act()
    page.wait_for_function(condition, arg=argument, timeout=300_000)
    return round(time.perf_counter() - start, 2)


def toggle(page: Any) -> float:
    """Milliseconds from a click on a layer's switch to the new r."""
    return page.evaluate(
        """async () => {
          const title = document.querySelectorAll("section[aria-label] .lrp-row-title")[1];
          const start = performance.now();
          const all = { childList: true, attributes: true, subtree: true };
          const changed = new Promise((resolve) => new MutationObserver(resolve).observe(title, all));
          document.querySelectorAll("button.lrp-switch")[6].click();
          await changed;
          return Math.round(performance.now() - start);
        }"""
    )


def tab_memory() -> int:
    """Megabytes that the largest renderer has to itself."""
    import psutil

    renderers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "--type=renderer" in (process.info["cmdline"] or [])
    ]
    return max(round(process.memory_full_info().uss / 1e6) for process in renderers)


def of_numpy(size: dict[str, int]) -> float:
    """GFLOP/s of the same product in NumPy."""
    a = np.full((size["m"], size["k"]), 0.5, np.float32)
    b = np.full((size["n"], size["k"]), 0.5, np.float32)
    a @ b.T
    start = time.perf_counter()
    for _ in range(20):
        a @ b.T
    return 20 * 2 * size["m"] * size["n"] * size["k"] / (time.perf_counter() - start) / 1e9


def walk(page: Any) -> dict[str, Any]:
    """Go through the page as a reader would, and return the times."""
    out: dict[str, Any] = {}
    page.evaluate(
        "() => { window.held = []; new PerformanceObserver((list) => list.getEntries().forEach("
        "(task) => window.held.push(task.duration))).observe({ type: 'longtask' }) }"
    )
    page.fill("textarea[name=text]", TEXT)
    page.keyboard.press("Enter")
    first = "() => document.querySelector('section[aria-label] .lrp-row-title')"
    out["load and first map, s"] = seconds(page, lambda: page.click("button.lrp-load"), first)
    out["then LOO, all rows and the paths, s"] = seconds(page, lambda: None, DONE)
    out["tokens"] = page.locator("ol[aria-label=LOO] li").count()
    out["toggle, ms"] = sorted(toggle(page) for _ in range(5))
    masks = page.locator("section button", has_text="All 4,096 masks").first
    best = "() => !document.querySelector('.lrp-best').hidden"
    out["all masks, s"] = seconds(page, masks.click, best)
    out["tab, MB"] = tab_memory()
    out["tasks over 50 ms"] = [round(task) for task in page.evaluate("window.held")]
    size = {"m": 20, "n": 1536, "k": 384}
    speeds = {"kernel": page.evaluate(KERNEL, size), "NumPy": of_numpy(size)}
    out["GFLOP/s"] = {name: round(speed, 1) for name, speed in speeds.items()}
    return out


def main(html: Path = HTML) -> None:
    """Walk through the page of a built book and print the times."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        for base in serve(html):
            page, watch = open_page(chromium.new_context(), f"{base}/book/your_sentence.html")
            page.wait_for_selector("[data-ready]")
            print(json.dumps({**walk(page), "asked of other hosts": watch.outside}, indent=1))
        chromium.close()


if __name__ == "__main__":
    main()

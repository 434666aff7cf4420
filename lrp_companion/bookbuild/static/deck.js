// Starts reveal.js on a deck once formulas and figures have their size. Loaded by decks only, as the last script.
(() => {
  const WIDGETS = ".lrp-widget, .companion-plot, .companion-quiz", SMALLEST = 0.5, LARGEST = 1.3;
  const print = /print-pdf/i.test(location.search);
  const frame = () => new Promise((done) => requestAnimationFrame(() => done()));

  /** Whether a slide's content reaches into its lower edge, where the links are. */
  function full(section) {
    const box = section.getBoundingClientRect(), edge = Number.parseFloat(getComputedStyle(section).paddingBottom) / section.offsetHeight;
    const inside = [...section.children].filter((node) => !node.matches(".slide-origin, .notes"));
    return Math.max(...inside.map((node) => node.getBoundingClientRect().bottom)) > box.bottom - edge * box.height + 1;
  }

  /** Make what a slide shows as large as the slide can hold: tables may grow, everything may shrink. */
  function fit(section) {
    const cells = [...section.querySelectorAll(".slide-cell")];
    const wide = (cell) => cell.scrollWidth > cell.clientWidth + 1 || [...cell.querySelectorAll("figure > div")].some((f) => f.scrollWidth > f.clientWidth + 1);
    const sizes = cells.map((cell) => (cell.querySelector("img, .lrp-widget, .companion-plot") ? 1 : LARGEST));
    const set = (k, size) => { sizes[k] = size; cells[k].style.zoom = size; };
    cells.forEach((cell, k) => {
      set(k, sizes[k]);
      while (sizes[k] > SMALLEST && wide(cell)) set(k, sizes[k] - 0.05);
    });
    while (full(section) && sizes.some((size) => size > SMALLEST)) {
      cells.forEach((_, k) => { if (sizes[k] > SMALLEST) set(k, sizes[k] - 0.05); });
    }
  }

  /** Widgets wake when they are seen; on paper nobody looks, so each is brought into view once. */
  async function wakeAll() {
    for (const host of document.querySelectorAll("[data-companion-widget]")) {
      for (let tries = 0; tries < 60 && host.dataset.ready === undefined; tries += 1) {
        host.scrollIntoView();
        await frame();
      }
    }
    scrollTo(0, 0);
  }

  async function start() {
    if (print) document.documentElement.dataset.theme = "light";
    await (window.MathJax?.startup?.promise ?? null);
    const deck = document.querySelector(".reveal"), sections = [...deck.querySelectorAll(".slides > section")];
    sections.forEach((section) => { fit(section); section.querySelectorAll(WIDGETS).forEach((node) => { node.dataset.preventSwipe = ""; }); });
    deck.classList.add("deck-ready");
    await Reveal.initialize({
      width: 1280, height: 720, margin: 0.02, center: false, transition: "none", hash: true, slideNumber: "c/t", pdfMaxPagesPerSlide: 1,
      keyboardCondition: () => !document.activeElement?.closest(WIDGETS),
      plugins: [RevealNotes],
    });
    const arrive = async () => {
      dispatchEvent(new Event("resize")); // plots drawn elsewhere take their place
      await frame();
      if (!print) fit(Reveal.getCurrentSlide());
    };
    Reveal.on("slidechanged", arrive);
    Reveal.addKeyBinding({ keyCode: 84, key: "T", description: "Light or dark" }, () => {
      const root = document.documentElement;
      root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    });
    // A widget changes its size when it wakes or is used.
    const watch = new ResizeObserver(() => { if (!print) fit(Reveal.getCurrentSlide()); });
    deck.querySelectorAll(".lrp-widget").forEach((host) => watch.observe(host));
    if (print) {
      while (!deck.querySelector(".pdf-page")) await frame();
      await wakeAll();
      sections.forEach(fit);
    }
    deck.dataset.ready = "";
  }

  document.addEventListener("keydown", (event) => {
    const widget = event.key === "Escape" && event.target.closest?.(WIDGETS);
    if (!widget) return;
    event.target.blur(); // arrow keys turn slides again
    event.stopImmediatePropagation();
  }, true);
  start();
})();

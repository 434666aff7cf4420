// Starts reveal.js on a deck once formulas and figures have their size. Decks load it as their last script.
// deno-lint-ignore-file no-inner-declarations -- a classic script's block keeps them out of the page's scope
"use strict";
{
  const WIDGETS = ".lrp-widget, .companion-quiz";
  const SMALLEST = 0.5, LARGEST = 1.3, STEP = 0.05; // of a cell's zoom
  const OPTIONS = {
    width: 1280,
    height: 720,
    margin: 0, // slides have one of their own
    center: false,
    transition: "none",
    hash: true,
    slideNumber: "c/t",
    pdfMaxPagesPerSlide: 1,
    pdfSeparateFragments: false, // on paper all steps are taken
  };
  const print = /print-pdf/i.test(location.search);

  /**
   * @returns {Promise<void>}
   */
  function frame() {
    return new Promise((done) => requestAnimationFrame(() => done()));
  }

  /**
   * @param {ParentNode} node
   * @param {string} selector
   * @returns {HTMLElement[]}
   */
  function elements(node, selector) {
    return Array.from(/** @type {NodeListOf<HTMLElement>} */ (node.querySelectorAll(selector)));
  }

  /**
   * Whether a slide's content reaches into its lower edge, where the links are.
   * @param {HTMLElement} section
   * @returns {boolean}
   */
  function full(section) {
    const box = section.getBoundingClientRect();
    const edge = Number.parseFloat(getComputedStyle(section).paddingBottom) / section.offsetHeight;
    const inside = [...section.children].filter((node) => !node.matches(".slide-origin, .notes"));
    const lowest = Math.max(...inside.map((node) => node.getBoundingClientRect().bottom));
    return lowest > box.bottom - edge * box.height + 1;
  }

  /**
   * Whether a cell, or a figure in it, is wider than its place.
   * @param {HTMLElement} cell
   * @returns {boolean}
   */
  function wide(cell) {
    if (cell.scrollWidth > cell.clientWidth + 1) return true;
    return [...cell.querySelectorAll("figure > div")].some((figure) =>
      figure.scrollWidth > figure.clientWidth + 1
    );
  }

  /**
   * Make what a slide shows as large as the slide can hold: tables may grow, everything may shrink.
   * @param {HTMLElement} section
   * @returns {void}
   */
  function fit(section) {
    const cells = elements(section, ".slide-cell");
    /** @type {number[]} */
    const sizes = cells.map((cell) =>
      cell.querySelector("img, [data-companion-widget=token_heatmap]") ? 1 : LARGEST
    );
    const set = (/** @type {number} */ k, /** @type {number} */ size) => {
      sizes[k] = size;
      cells[k].style.zoom = String(size);
    };
    cells.forEach((cell, k) => {
      set(k, sizes[k]);
      while (sizes[k] > SMALLEST && wide(cell)) set(k, sizes[k] - STEP);
    });
    while (full(section) && sizes.some((size) => size > SMALLEST)) {
      sizes.forEach((size, k) => {
        if (size > SMALLEST) set(k, size - STEP);
      });
    }
  }

  /**
   * Steps of a slide: rows of tables in a `slide-steps` part appear one by one; what a cell hides appears
   * with the last step, or by its button.
   * @param {HTMLElement} section
   * @returns {void}
   */
  function addSteps(section) {
    for (const step of elements(section, ".slide-steps tbody tr, .slide-steps > p")) {
      step.classList.add("fragment");
    }
    for (const cell of elements(section, ".slide-hide-results")) {
      const button = document.createElement("button"), step = document.createElement("span");
      button.type = "button";
      button.className = "slide-show";
      button.textContent = "Show the results";
      button.onclick = () => {
        while (Reveal.nextFragment());
      };
      step.className = "fragment slide-asked";
      cell.prepend(step, button);
    }
  }

  /**
   * The link into the book leads to the widget as it stands on the slide when it is followed.
   * @param {HTMLElement} section
   * @returns {void}
   */
  function carryState(section) {
    const link = section.querySelector(".slide-origin a[href*='#']");
    const host = /** @type {HTMLElement | null} */ (section.querySelector("[data-companion-widget]"));
    if (!(link instanceof HTMLAnchorElement) || host === null) return;
    const asked = link.hash.slice(1).split("&"); // what the slide starts with
    const take = () => {
      const pieces = new Map([...asked, ...host.companion?.changed() ?? []].map((piece) => [
        piece.split("=")[0],
        piece,
      ]));
      link.hash = [...pieces.values()].join("&");
    };
    for (const event of ["pointerdown", "focus"]) link.addEventListener(event, take);
  }

  /**
   * Widgets wake when they are seen; on paper nobody looks, so each is brought into view once.
   * @returns {Promise<void>}
   */
  async function wakeAll() {
    for (const host of elements(document, "[data-companion-widget]")) {
      for (let tries = 0; tries < 60 && host.dataset.ready === undefined; tries += 1) {
        host.scrollIntoView();
        await frame();
      }
    }
    scrollTo(0, 0);
  }

  /**
   * @returns {void}
   */
  function fitCurrent() {
    if (!print) fit(Reveal.getCurrentSlide());
  }

  /**
   * @param {HTMLElement} deck
   * @returns {Promise<void>}
   */
  async function reveal(deck) {
    const inWidget = () => document.activeElement?.closest(WIDGETS);
    const turns = (/** @type {KeyboardEvent} */ event) =>
      event.target instanceof HTMLButtonElement && /^Arrow(Left|Right)$/.test(event.key) &&
      !event.defaultPrevented; // a row of buttons moves in itself
    const keyboardCondition = (/** @type {KeyboardEvent} */ event) => !inWidget() || turns(event);
    await Reveal.initialize({ ...OPTIONS, keyboardCondition, plugins: [RevealNotes] });
    const slides = elements(deck, ".slides > section");
    const offTheTabs = () => slides.forEach((slide) => slide.inert = slide !== Reveal.getCurrentSlide());
    offTheTabs(); // what is not shown is not reached by Tab either
    Reveal.on("slidechanged", async () => {
      offTheTabs();
      dispatchEvent(new Event("resize")); // plots drawn elsewhere take their place
      await frame();
      fitCurrent();
    });
    Reveal.addKeyBinding({ keyCode: 84, key: "T", description: "Light or dark" }, () => {
      const root = document.documentElement;
      root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    });
    const watch = new ResizeObserver(fitCurrent); // a widget changes its size when it wakes or is used
    for (const host of elements(deck, ".lrp-widget")) watch.observe(host);
  }

  /**
   * @returns {Promise<void>}
   */
  async function start() {
    if (print) document.documentElement.dataset.theme = "light";
    await (window.MathJax?.startup?.promise ?? null);
    const deck = /** @type {HTMLElement} */ (document.querySelector(".reveal"));
    const sections = elements(deck, ".slides > section");
    for (const section of sections) {
      addSteps(section);
      carryState(section);
      fit(section);
      for (const widget of elements(section, WIDGETS)) widget.dataset.preventSwipe = "";
    }
    deck.classList.add("deck-ready");
    await reveal(deck);
    if (print) {
      while (!deck.querySelector(".pdf-page")) await frame();
      await wakeAll();
      sections.forEach(fit);
    }
    deck.dataset.ready = "";
  }

  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (key !== "Escape" || !(target instanceof Element) || !target.closest(WIDGETS)) return;
    /** @type {HTMLElement | SVGElement} */ (target).blur(); // arrow keys turn slides again
    event.stopImmediatePropagation();
  }, true);
  start();
}

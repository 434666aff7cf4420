// Paper, tables, the mark of the page's contents, folds, and the search of every page of the book.

addEventListener("beforeprint", () => {
  const shown = document.documentElement.dataset, theme = shown.theme;
  shown.theme = "light"; // paper is white
  addEventListener("afterprint", () => shown.theme = theme, { once: true });
});

// An interval stays in one piece, in whatever table it stands.
for (const cell of document.querySelectorAll("article :is(td, th)")) {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) found.push(/** @type {Text} */ (texts.currentNode));
  for (const text of found) {
    const pieces = text.data.split(/(\[[^[\]\s]+, [^[\]\s]+\])/).map((piece, k) => {
      const whole = document.createElement("span");
      whole.className = "lrp-interval";
      whole.append(piece);
      return k % 2 ? whole : piece;
    });
    if (pieces.length > 1) text.replaceWith(...pieces);
  }
}

// A table that is wider than a phone becomes a list of its rows there, each value under its heading.
// Elsewhere, or where it is long, it says that it scrolls: a column that is cut at its edge looks complete.
const PHONE = matchMedia("(max-width: 560px)");
const ROWS_OF_A_LIST = 40;
const LINE = 24; // letters: a cell that has more, a formula or code takes a line of its own

/**
 * Gives each cell its heading as `data-heading`, the group's first, and the roles that a list would lose.
 * @param {HTMLTableElement} table
 * @returns {void}
 */
function nameCells(table) {
  /** @type {string[]} */
  const headings = [];
  for (const row of table.tHead?.rows ?? []) {
    const names = [...row.cells].flatMap((cell) => Array(cell.colSpan).fill(cell.textContent.trim()));
    names.forEach((name, k) => headings[k] = [headings[k], name].filter(Boolean).join(": "));
  }
  table.setAttribute("role", "table");
  for (const row of table.rows) {
    row.setAttribute("role", "row");
    [...row.cells].forEach((cell, k) => {
      const head = cell.closest("thead") !== null;
      cell.setAttribute("role", head ? "columnheader" : k === 0 ? "rowheader" : "cell");
      if (head) return;
      cell.dataset.heading = headings[k] ?? "";
      cell.classList.toggle("lrp-line", cell.textContent.length > LINE || cell.matches(":has(.math, code)"));
    });
  }
}

const scrolling = '.lrp-table > [role="region"], .pst-scrollable-table-container';
for (const [k, region] of document.querySelectorAll(scrolling).entries()) {
  if (region.ariaLabel === "Table") region.ariaLabel = `Table ${k + 1}`; // of those without a caption
  const told = region.closest(".lrp-table") ?? region;
  const table = region.querySelector("table");
  let width = 0;
  const tell = () => {
    if (region.clientWidth === width || table === null) return;
    width = region.clientWidth;
    told.classList.remove("lrp-list", "lrp-scrolls", "lrp-tight");
    if (region.scrollWidth <= width + 1) return;
    told.classList.toggle("lrp-tight", !PHONE.matches);
    if (region.scrollWidth <= width + 1) return;
    const list = PHONE.matches && table.rows.length <= ROWS_OF_A_LIST;
    if (list) nameCells(table);
    told.classList.add(list ? "lrp-list" : "lrp-scrolls");
  };
  new ResizeObserver(tell).observe(region);
}

/**
 * Keeps the mark of a page's contents at the section that is read: the last heading above a line.
 * The theme's own observer asks how much of a heading is in a band, and loses the place in long sections.
 * @param {HTMLElement} contents
 * @returns {void}
 */
function followReading(contents) {
  const links = [...contents.querySelectorAll("a")].filter((link) => link.hash.length > 1);
  const headings = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
  const mark = () => {
    const line = innerHeight / 4;
    const end = innerHeight + scrollY >= document.documentElement.scrollHeight - 4;
    const above = headings.map((node) =>
      node !== null && node.getBoundingClientRect().top <= (end ? innerHeight : line)
    );
    const here = links[above.lastIndexOf(true)];
    for (const link of links) {
      const marked = link === here;
      if (link.classList.contains("active") !== marked) link.classList.toggle("active", marked);
      if (marked) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    for (const entry of contents.querySelectorAll(".toc-entry")) {
      const around = here !== undefined && entry.contains(here);
      if (entry.classList.contains("active") !== around) entry.classList.toggle("active", around);
    }
  };
  addEventListener("scroll", mark, { passive: true });
  addEventListener("resize", mark);
  new MutationObserver(mark).observe(contents, { attributeFilter: ["class"], subtree: true });
  mark();
}

const contentsOfPage = document.getElementById("pst-page-toc-nav");
if (contentsOfPage) followReading(contentsOfPage);

for (const head of document.querySelectorAll("article thead th")) {
  if (!head.textContent?.trim()) head.role = "presentation"; // a heading without words
}

// What a fold holds is its name; the theme calls all of them "Toggle hidden content".
for (const fold of document.querySelectorAll('summary[aria-label="Toggle hidden content"]')) {
  fold.removeAttribute("aria-label");
}
for (const fold of document.querySelectorAll(".bd-sidebar-primary summary")) {
  const above = fold.closest("li")?.querySelector("a")?.innerText ?? "";
  fold.setAttribute("aria-label", `Pages under ${above}`);
}

// The words of a search are marked inside of rules otherwise; a drawing's title has no box to be marked by.
for (const silent of document.querySelectorAll("article style, svg title, svg desc")) {
  silent.classList.add("nohighlight");
}

const chapters = document.querySelector(".bd-sidebar-primary"), here = chapters?.querySelector("a.current");
if (chapters && here) { // the list of pages shows this one
  chapters.scrollTop += here.getBoundingClientRect().top - chapters.getBoundingClientRect().top -
    chapters.clientHeight / 3;
}

// A search that finds an entry of the index has no text of it, where Sphinx expects one. What widgets,
// tables and code say is no text to read, and in a book opened from a folder no page can be fetched.
if (typeof Search !== "undefined") {
  Scorer.objPrio[1] = -5; // entries of the API come after chapters
  const summary = Search.makeSearchSummary, text = Search.htmlToText;
  Search.makeSearchSummary = (...found) => summary(...found) ?? document.createTextNode("");
  Search.htmlToText = (markup, anchor) => {
    const page = new DOMParser().parseFromString(markup, "text/html");
    const silent = page.querySelectorAll("[data-companion-widget], .lrp-table, .cell_input");
    silent.forEach((node) => node.remove());
    return text(page.documentElement.outerHTML, anchor).replace(/\\[()[\]]/g, "").replace(/\s+/g, " ");
  };
  if (location.protocol === "file:") {
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
    const said = document.createElement("p");
    said.textContent = "Opened from a folder, the search lists titles; from a web server, excerpts as well.";
    document.getElementById("search-results")?.before(said);
  }
}

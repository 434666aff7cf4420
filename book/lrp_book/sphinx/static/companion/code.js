// Shows or hides the code of every page, as the reader chose last; at first it is hidden on a phone.
// It runs before the page is drawn, so that code which is hidden is never seen.
"use strict";
{
  const KEY = "companion-code", STEPS = ":not(.cell, h1, h2) + .cell:not(:has(> .cell_output)) > .cell_input";
  const page = document.documentElement;
  let shown = !matchMedia("(max-width: 560px)").matches;

  const tell = () => {
    page.dataset.code = shown ? "shown" : "hidden";
  };

  try {
    shown = (localStorage.getItem(KEY) ?? String(shown)) === "true";
  } catch { /* a browser that keeps nothing: the choice holds for this page */ }
  tell();
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".code-switch")?.addEventListener("click", () => {
      shown = !shown;
      tell();
      try {
        localStorage.setItem(KEY, String(shown));
      } catch { /* as above */ }
    });
    // Where code is hidden, what is said right above a step of nothing but code would lead to nothing.
    for (const input of document.querySelectorAll(STEPS)) {
      const here = document.createElement("button");
      here.className = "code-here";
      here.type = "button";
      here.textContent = "Show this code";
      here.addEventListener("click", () => input.parentElement?.classList.add("code-open"));
      input.before(here);
    }
  });
}

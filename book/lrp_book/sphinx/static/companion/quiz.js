// Makes a form of every quiz in the page, a question at a time. Without this script, and on paper, all
// questions stand one below the other, as lists with answers folded.
// Nodes are moved, never copied, so that formulas are typeset once wherever they stand.
// deno-lint-ignore-file no-inner-declarations -- a classic script's block keeps them out of the page's scope
"use strict";
{
  const LETTERS = "ABCDEFGH";

  /**
   * @template {keyof HTMLElementTagNameMap} Tag
   * @param {Tag} tag
   * @param {{ [name: string]: string }} attributes
   * @param {...(Node | string)} children
   * @returns {HTMLElementTagNameMap[Tag]}
   */
  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  /**
   * The one element that the book's markup is sure to have there.
   * @param {Element} node
   * @param {string} selector
   * @returns {HTMLElement}
   */
  function part(node, selector) {
    const inside = node.querySelector(selector);
    if (!(inside instanceof HTMLElement)) {
      throw new Error(`quiz: expected ${selector} inside ${node.className}`);
    }
    return inside;
  }

  /**
   * What a list item or a box holds, without the paragraph around a single one: labels and legends hold only
   * phrases.
   * @param {Element} node
   * @returns {ChildNode[]}
   */
  function phrases(node) {
    const [only] = node.children;
    return [...(node.children.length === 1 && only.tagName === "P" ? only : node).childNodes];
  }

  /**
   * The options as labelled radio buttons.
   * @param {Element} question
   * @param {string} name of the group
   * @returns {{ inputs: HTMLInputElement[], labels: HTMLLabelElement[] }}
   */
  function optionsOf(question, name) {
    const options = [...question.querySelectorAll(".quiz-options li")];
    const inputs = options.map((_, i) => make("input", { type: "radio", name, value: String(i) }));
    const labels = options.map((option, i) => {
      const letter = make("span", { class: "quiz-letter" }, `${LETTERS[i]}. `);
      return make("label", {}, inputs[i], make("span", {}, letter, ...phrases(option)));
    });
    return { inputs, labels };
  }

  /**
   * The folded answers, and a line that shows one of them: its text is moved there, and back for the next.
   * @param {Element} question
   * @returns {{ fold: HTMLElement, status: HTMLElement, number: string, ask: () => void,
   *   asked: () => void, show: (place: number) => boolean }} `show` returns whether the answer is right
   */
  function answersOf(question) {
    const fold = part(question, ".quiz-answers"),
      status = make("div", { role: "status", class: "quiz-status" });
    /** @type {NodeListOf<HTMLLIElement>} */
    const items = fold.querySelectorAll(":scope > ol > li");
    const answers = Array.from(items);
    const number = part(question, "summary").textContent.match(/\d+/)?.[0] ?? "";
    let shown = -1;
    const putBack = () => {
      if (shown >= 0) answers[shown].append(...part(status, ".quiz-why").childNodes);
      shown = -1;
    };
    const ask = () => {
      putBack();
      status.replaceChildren(make("p", {}, "Choose an answer first."));
    };
    const asked = () => {
      if (shown < 0) status.replaceChildren(); // an answer is chosen now
    };
    const show = (/** @type {number} */ place) => {
      putBack();
      const right = answers[place].classList.contains("quiz-right");
      const why = make("div", { class: "quiz-why" }, ...answers[place].childNodes);
      const verdict = `${right ? "✓" : "✗"} Question ${number}, answer ${LETTERS[place]}:`;
      status.replaceChildren(make("p", { class: "quiz-verdict" }, verdict), why);
      shown = place;
      return right;
    };
    answers.forEach((answer, i) => {
      answer.value = i + 1; // letters stay when the one that is shown above leaves the list
    });
    fold.hidden = true;
    return { fold, status, number, ask, asked, show };
  }

  /**
   * Make a form of one question.
   * @param {Element} question
   * @param {string} name of its group of radio buttons
   * @param {(atOnce: boolean) => void} report called once it is solved
   * @returns {void}
   */
  function prepare(question, name, report) {
    const { inputs, labels } = optionsOf(question, name);
    const { fold, status, number, ask, asked, show } = answersOf(question);
    const button = make("button", { type: "button", class: "quiz-check" }, "Check");
    const legend = make("legend", {}, ...phrases(part(question, ".quiz-ask")));
    let tries = 0, solved = false;
    for (const input of inputs) input.addEventListener("change", asked);
    button.addEventListener("click", () => {
      const chosen = inputs.findIndex((input) => input.checked);
      if (chosen < 0) return ask();
      const right = show(chosen);
      if (!solved) tries += 1;
      labels.forEach((label, i) => label.classList.toggle("quiz-chosen", i === chosen));
      labels[chosen].classList.add(right ? "quiz-is-right" : "quiz-is-wrong");
      if (!right || solved) return;
      solved = true;
      fold.hidden = false;
      part(fold, "summary").textContent = `What the other answers of question ${number} miss`;
      report(tries === 1);
    });
    question.prepend(make("fieldset", {}, legend, ...labels), button, status);
    part(question, ".quiz-options").remove();
    part(question, ".quiz-ask").remove();
  }

  /**
   * Show one question, and two buttons that go on and back.
   * @param {Element[]} questions
   * @returns {HTMLElement}
   */
  function inTurn(questions) {
    let here = 0;
    const button = (/** @type {string} */ name, /** @type {number} */ step) => {
      const node = make("button", { type: "button", class: "quiz-check" }, name);
      node.addEventListener("click", () => {
        turn(here + step);
        questions[here].querySelector("input")?.focus({ preventScroll: true });
      });
      return node;
    };
    const back = button("Previous question", -1), next = button("Next question", 1);
    const place = make("span", {});
    const turn = (/** @type {number} */ to) => {
      here = to;
      questions.forEach((question, i) => question.classList.toggle("quiz-away", i !== here));
      back.disabled = here === 0;
      next.disabled = here === questions.length - 1;
      place.textContent = `${here + 1} of ${questions.length}`;
    };
    turn(0);
    return make("div", { class: "quiz-steps" }, back, place, next);
  }

  /** @type {NodeListOf<HTMLElement>} */
  const quizzes = document.querySelectorAll(".companion-quiz");
  quizzes.forEach((quiz, place) => {
    const questions = [...quiz.querySelectorAll(".quiz-question")];
    const score = make("p", { role: "status", class: "quiz-score" });
    let done = 0, first = 0;
    const report = (/** @type {boolean} */ atOnce) => {
      done += 1;
      first += Number(atOnce);
      score.textContent = `${done} of ${questions.length} answered, ${first} at the first try.`;
    };
    questions.forEach((question, i) => prepare(question, `quiz-${place}-${i}`, report));
    quiz.append(inTurn(questions), score);
    quiz.dataset.ready = "";
  });
}

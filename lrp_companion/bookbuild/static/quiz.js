// Makes a form of every quiz in the page. Without this script the questions stand as lists, with their answers folded.
// Nodes are moved, never copied, so that formulas are typeset once wherever they stand.
(() => {
  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  /** What a list item or a box holds, without the paragraph around a single one (labels and legends hold phrases only). */
  function phrases(node) {
    const only = node.children.length === 1 && node.firstElementChild.tagName === "P" ? node.firstElementChild : node;
    return [...only.childNodes];
  }

  function prepare(question, name, report) {
    const options = [...question.querySelectorAll(".quiz-options li")];
    const fold = question.querySelector(".quiz-answers");
    const answers = [...fold.querySelectorAll(":scope > ol > li")];
    const status = make("div", { role: "status", class: "quiz-status" });
    const button = make("button", { type: "button", class: "quiz-check" }, "Check");
    const inputs = options.map((_, i) => make("input", { type: "radio", name, value: String(i) }));
    const labels = options.map((option, i) =>
      make("label", {}, inputs[i], make("span", {}, make("span", { class: "quiz-letter" }, `${"ABCDEFGH"[i]}. `), ...phrases(option))));
    const legend = make("legend", {}, ...phrases(question.querySelector(".quiz-ask")));
    const number = question.querySelector("summary").textContent.match(/\d+/)[0];
    let tries = 0, shown = -1, solved = false;

    const putBack = () => { if (shown >= 0) answers[shown].append(...status.querySelector(".quiz-why").childNodes); shown = -1; };
    inputs.forEach((input) => input.addEventListener("change", () => { button.disabled = false; }));
    button.addEventListener("click", () => {
      const chosen = inputs.findIndex((input) => input.checked);
      putBack();
      if (chosen < 0) {
        status.replaceChildren(make("p", {}, "Choose an answer first."));
        return;
      }
      const right = answers[chosen].classList.contains("quiz-right");
      if (!solved) tries += 1;
      labels.forEach((label, i) => label.classList.toggle("quiz-chosen", i === chosen));
      labels[chosen].classList.add(right ? "quiz-is-right" : "quiz-is-wrong");
      const why = make("div", { class: "quiz-why" }, ...answers[chosen].childNodes);
      status.replaceChildren(make("p", { class: "quiz-verdict" }, `${right ? "✓" : "✗"} Question ${number}, answer ${"ABCDEFGH"[chosen]}:`), why);
      shown = chosen;
      if (right && !solved) {
        solved = true;
        fold.hidden = false;
        fold.querySelector("summary").textContent = `What the other answers of question ${number} miss`;
        report(tries === 1);
      }
    });
    answers.forEach((answer, i) => { answer.value = i + 1; }); // letters stay when the one that is shown above leaves the list
    fold.hidden = true;
    question.prepend(make("fieldset", {}, legend, ...labels), button, status);
    question.querySelector(".quiz-options").remove();
    question.querySelector(".quiz-ask").remove();
  }

  document.querySelectorAll(".companion-quiz").forEach((quiz, place) => {
    const questions = [...quiz.querySelectorAll(".quiz-question")];
    const score = make("p", { role: "status", class: "quiz-score" });
    let done = 0, first = 0;
    const report = (atOnce) => {
      done += 1;
      first += Number(atOnce);
      score.textContent = `${done} of ${questions.length} answered, ${first} at the first try.`;
    };
    questions.forEach((question, i) => prepare(question, `quiz-${place}-${i}`, report));
    quiz.append(score);
    quiz.dataset.ready = "";
  });
})();

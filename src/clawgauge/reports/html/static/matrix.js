// Model by prompt: which checks each model meets. Counts are of all recorded calls, sampled or not.

const MAX_PROMPTS = 300;
// So many stand beside each other on paper, which does not scroll.
const PRINTED_PROMPTS = 20;

function drawMatrix() {
  const targets = shownTargets();
  const cells = matrixCells;
  const blocks = suites
    .filter(isSuiteShown)
    .map((suite) => matrixBlock(suite, targets, cells))
    .filter(Boolean);
  const seen = new Set([...cells.values()].map(cellOutcome));
  fill(
    "prompts-legend",
    Object.keys(OUTCOMES)
      .filter((name) => seen.has(name))
      .map((name) => html("li", {}, outcomeSign(name), `${OUTCOMES[name].word}: ${OUTCOMES[name].meaning}`)),
  );
  fill("prompts-matrix", blocks.length ? blocks : html("p", { class: "empty" }, "No prompt to show."));
}

// How each (target, prompt) ended: a count for every outcome.
function countOutcomes() {
  const cells = new Map();
  for (const [target, prompt, outcome, n] of report.matrix) {
    const key = `${target},${prompt}`;
    if (!cells.has(key)) cells.set(key, {});
    cells.get(key)[report.outcomes[outcome]] = n;
  }
  return cells;
}

const matrixCells = countOutcomes();

function cellOutcome(counts) {
  // A repeat that was never asked says nothing beside one that was.
  const names = Object.keys(counts).filter((name) => name !== "not_asked");
  if (!names.length) return "not_asked";
  if (names.length === 1) return names[0];
  if (counts.pass) return "mixed";
  return names.reduce((most, name) => (counts[name] > counts[most] ? name : most));
}

function cellWords(counts) {
  return Object.entries(counts)
    .map(([name, n]) => `${n} × ${OUTCOMES[name].word}`)
    .join(", ");
}

function matrixBlock(suite, targets, cells) {
  const all = report.prompts
    .map((_, number) => number)
    .filter(
      (prompt) =>
        report.prompts[prompt][0] === suite && targets.some((target) => cells.has(`${target.number},${prompt}`)),
    );
  if (!all.length) return null;
  const asked = targets.filter((target) => all.some((prompt) => cells.has(`${target.number},${prompt}`)));
  const prompts = telling(all, targets, cells);
  const cut =
    prompts.length < all.length
      ? html(
          "p",
          { class: "soft" },
          `Showing ${prompts.length} of ${all.length} prompts: those not passed by every model first.`,
        )
      : null;
  const title = visible(suite) || "prompts";
  const pieces = isPrinting ? Math.ceil(prompts.length / PRINTED_PROMPTS) : 1;
  const step = Math.ceil(prompts.length / pieces);
  const tables = [];
  for (let from = 0; from < prompts.length; from += step) {
    const about = from ? " continued" : ` ${plural(all.length, "prompt")}`;
    tables.push(matrixTable(title, about, asked, prompts.slice(from, from + step), cells));
  }
  return html(
    "div",
    {},
    tables.map((table) => html("div", { class: "scrolls" }, table)),
    cut,
  );
}

function matrixTable(title, about, asked, prompts, cells) {
  const table = html(
    "table",
    { class: "matrix", keydown: moveInMatrix },
    html("caption", {}, title, html("span", { class: "about" }, about)),
    html(
      "thead",
      {},
      html(
        "tr",
        {},
        html("td"),
        prompts.map((prompt) =>
          html(
            "th",
            { scope: "col", title: visible(promptTitle(prompt)) },
            html("span", { class: "turned" }, shortened(visible(report.prompts[prompt][1]), 24)),
            html("span", { class: "hidden" }, ` ${visible(report.prompts[prompt][2])}`),
          ),
        ),
      ),
    ),
    html(
      "tbody",
      {},
      asked.map((target) => matrixRow(target, prompts, cells)),
    ),
  );
  table.querySelector("button")?.setAttribute("tabindex", "0");
  return table;
}

function telling(prompts, targets, cells) {
  if (prompts.length <= MAX_PROMPTS) return prompts;
  const isPassed = (prompt) =>
    targets.every((target) => {
      const counts = cells.get(`${target.number},${prompt}`);
      return !counts || cellOutcome(counts) === "pass";
    });
  const kept = new Set(
    [...prompts.filter((prompt) => !isPassed(prompt)), ...prompts.filter(isPassed)].slice(0, MAX_PROMPTS),
  );
  return prompts.filter((prompt) => kept.has(prompt));
}

function matrixRow(target, prompts, cells) {
  const title = visible(targetTitle(target));
  return html(
    "tr",
    {},
    html("th", { scope: "row", title }, shortened(title, 34)),
    prompts.map((prompt) => {
      const counts = cells.get(`${target.number},${prompt}`);
      if (!counts) return html("td", {}, html("span", { class: "not-asked", title: "not asked" }, "·"));
      const name = cellOutcome(counts);
      const words = `${title}, ${visible(promptTitle(prompt))}: ${cellWords(counts)}`;
      return html(
        "td",
        {},
        html(
          "button",
          {
            type: "button",
            tabindex: -1,
            class: `mark is-${name}`,
            title: words,
            "aria-label": words,
            click: () => showCallsOf(target, prompt),
          },
          OUTCOMES[name].sign,
        ),
      );
    }),
  );
}

// One Tab stop for the whole table, arrows within it.
function moveInMatrix(event) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  const from = event.target.closest("td");
  if (!step || !from) return;
  event.preventDefault();
  const [down, right] = step;
  let row = from.parentElement.rowIndex + down;
  let column = from.cellIndex + right;
  const { rows } = event.currentTarget;
  while (rows[row]?.cells[column]) {
    const button = rows[row].cells[column].querySelector("button");
    if (button) {
      from.querySelector("button").setAttribute("tabindex", "-1");
      button.setAttribute("tabindex", "0");
      button.focus();
      return;
    }
    row += down;
    column += right;
  }
}

// One call is opened; several are listed.
function showCallsOf(target, prompt) {
  const behind = [];
  for (let call = 0; call < calls.n; call++) {
    if (calls.target[call] === target.number && calls.prompt[call] === prompt) behind.push(call);
  }
  if (behind.length === 1) {
    openCall(behind[0]);
    return;
  }
  byId("filter-run").value = String(target.run);
  byId("filter-model").value = target.label;
  byId("filter-suite").value = `=${report.prompts[prompt][0]}`;
  byId("filter-text").value = promptTitle(prompt);
  byId("filters").dispatchEvent(new Event("change"));
  byId("calls").scrollIntoView();
}

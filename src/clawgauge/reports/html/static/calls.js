// The list of calls. Only the rows in sight are in the document, so that twenty thousand scroll like twenty.

const ROW_HEIGHT = 46;
const PHONE_ROW_HEIGHT = 104;
const PHONE = matchMedia("screen and (max-width: 46rem)");
const SPARE_ROWS = 8;
const MAX_WINDOW_HEIGHT = 640;
const MAX_PRINTED = 200;
const list = { order: {}, sorted: [], current: 0, box: null, body: null, head: null, table: null };

const CALL_COLUMNS = [
  { name: "outcome", label: "Outcome", class: "outcome", value: (call) => calls.outcome[call], cell: callLink },
  {
    name: "model",
    label: "Model",
    class: "model wide",
    value: (call) => callTarget(call).label,
    cell: (call) => clamped(visible(targetTitle(callTarget(call)))),
  },
  {
    name: "prompt",
    label: "Prompt",
    class: "prompt",
    value: (call) => promptTitle(calls.prompt[call]),
    cell: promptCell,
  },
  {
    name: "why",
    label: "Why",
    class: "why wide",
    value: (call) => callString("why", call),
    cell: (call) => clamped(visible(whyWords(callString("why", call)))),
  },
  {
    name: "tools",
    label: "Tools",
    class: "tools wider",
    value: (call) => callString("tools", call),
    cell: (call) => visible(callString("tools", call)),
  },
  {
    name: "e2e",
    label: "Time",
    class: "number time",
    title: "time to the whole answer",
    bestFirst: true,
    value: (call) => calls.e2e[call],
    cell: (call) => [
      calls.cold[call] ? html("span", { class: "cold", title: "cold call" }, "◆ ") : null,
      milliseconds(calls.e2e[call]),
    ],
  },
  {
    name: "ttft",
    label: "First token",
    class: "number time wide",
    bestFirst: true,
    value: (call) => calls.ttft[call],
    cell: (call) => milliseconds(calls.ttft[call]),
  },
  {
    name: "tokens",
    label: "Tokens",
    class: "number tokens wider",
    title: "tokens in the answer",
    bestFirst: true,
    value: (call) => calls.tokensOut[call],
    cell: (call) => count(calls.tokensOut[call]),
  },
];

function rowHeight() {
  return PHONE.matches ? PHONE_ROW_HEIGHT : ROW_HEIGHT;
}

// At most two lines of it; all of it at the pointer, and on paper.
function clamped(text, name = "") {
  return html("span", { class: `clamped ${name}`, title: text }, text);
}

// The id whole, whatever the width; on a phone it has the model and the reason under it.
function promptCell(call) {
  const [suite, id, name] = report.prompts[calls.prompt[call]].map(visible);
  const repeat = calls.repeat[call] ? ` #${calls.repeat[call]}` : "";
  return [
    html("span", { class: "prompt-id" }, `${suite ? `${suite}/` : ""}${id}${repeat}`),
    name && name !== id ? html("span", { class: "prompt-name" }, ` ${name}`) : null,
    html("span", { class: "phone-only soft" }, visible(targetTitle(callTarget(call)))),
    clamped(visible(whyWords(callString("why", call))), "phone-only"),
  ];
}

// What went wrong first, then what was not answered; what passed, and what was not asked, is the least to look at.
const CONCERN = { fail: 0, no_verdict: 2, pass: 3, not_asked: 4 };

function concern(call) {
  return CONCERN[outcomeName(call)] ?? 1;
}

function callLink(call) {
  return html("a", { href: callAddress(call), tabindex: -1, class: "open-call" }, outcomeBadge(outcomeName(call)));
}

function setUpCalls() {
  list.head = html("thead");
  list.body = html("tbody");
  list.table = html(
    "table",
    { class: "calls" },
    html("caption", { class: "hidden" }, "Calls; Enter opens one, arrow keys move between them"),
    html(
      "colgroup",
      {},
      CALL_COLUMNS.map((column) => html("col", { class: column.class })),
    ),
    list.head,
    list.body,
  );
  list.box = byId("calls-window");
  list.box.replaceChildren(list.table);
  let waiting = false;
  list.box.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawRowsInSight();
    });
  });
  list.body.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-place]");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    list.current = Number(row.dataset.place);
    openCall(list.sorted[list.current]);
  });
  list.body.addEventListener("keydown", moveInList);
}

function drawCalls() {
  sortCalls();
  list.current = 0;
  list.box.scrollTop = 0;
  drawHeadings();
  drawRowsInSight();
}

function sortCalls() {
  const sorting = CALL_COLUMNS.find((column) => column.name === list.order.column);
  list.sorted = sortRows(matching, sorting ? sorting.value : concern, sorting ? list.order.descending : false);
}

function drawHeadings() {
  list.table.setAttribute("aria-rowcount", list.sorted.length + 1);
  list.head.replaceChildren(
    html(
      "tr",
      { "aria-rowindex": 1 },
      CALL_COLUMNS.map((column) => sortHeading(column, list.order, sortCallsBy)),
    ),
  );
}

function sortCallsBy(column) {
  list.order = nextOrder(list.order, column);
  drawCalls();
  list.head.querySelectorAll("button")[CALL_COLUMNS.indexOf(column)].focus();
}

function drawRowsInSight() {
  // Never less than the window can grow to: it is as high as its rows, and those are about to be drawn.
  const height = Math.max(list.box.clientHeight, MAX_WINDOW_HEIGHT);
  const first = Math.max(0, Math.floor(list.box.scrollTop / rowHeight()) - SPARE_ROWS);
  const last = Math.min(list.sorted.length, Math.ceil((list.box.scrollTop + height) / rowHeight()) + SPARE_ROWS);
  drawRows(first, last);
}

function drawRows(first, last) {
  const focused = list.body.contains(document.activeElement);
  const rows = [spacerRow(first)];
  for (let place = first; place < last; place++) rows.push(callRow(place));
  rows.push(spacerRow(list.sorted.length - last));
  if (!list.sorted.length)
    rows.push(
      html(
        "tr",
        {},
        html("td", { class: "empty", colspan: 4 }, calls.n ? "No call fits the filters." : "No call was recorded."),
      ),
    );
  list.body.replaceChildren(...rows);
  // The one row Tab leads to may be out of sight; the first in sight stands in for it.
  const current = rowAt(list.current) || rowAt(first);
  current?.querySelector("a").setAttribute("tabindex", "0");
  if (focused) current?.querySelector("a").focus({ preventScroll: true });
}

function spacerRow(n) {
  const cell = html("td");
  cell.style.height = `${n * rowHeight()}px`;
  return html("tr", { class: "spacer", "aria-hidden": "true" }, cell);
}

function callRow(place) {
  const call = list.sorted[place];
  return html(
    "tr",
    { "data-place": place, "aria-rowindex": place + 2 },
    CALL_COLUMNS.map((column) => html("td", { class: column.class }, column.cell(call))),
  );
}

function rowAt(place) {
  return list.body.querySelector(`tr[data-place="${place}"]`);
}

function moveInList(event) {
  const page = Math.max(1, Math.floor(list.box.clientHeight / rowHeight()) - 2);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  const step = steps[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const row = event.target.closest("tr[data-place]");
  const from = row ? Number(row.dataset.place) : list.current;
  showInList(Math.min(list.sorted.length - 1, Math.max(0, from + step)));
}

// Bring a row into sight and give it the focus.
function showInList(place) {
  list.current = place;
  const top = place * rowHeight();
  const room = list.box.clientHeight - list.head.offsetHeight - rowHeight();
  if (top < list.box.scrollTop) list.box.scrollTop = top;
  else if (top > list.box.scrollTop + room) list.box.scrollTop = top - room;
  drawRowsInSight();
  rowAt(place)?.querySelector("a").focus({ preventScroll: true });
}

// Paper does not scroll.
function printCalls() {
  drawRows(0, Math.min(MAX_PRINTED, list.sorted.length));
  list.body.lastElementChild.remove();
  byId("calls-printed").textContent =
    list.sorted.length > MAX_PRINTED
      ? `Printed: the first ${MAX_PRINTED} of ${count(list.sorted.length)} calls; the file itself lists them all.`
      : "";
}

// What is looked at: run, suite, model, outcome and words narrow every chart and list below them.

const view = { run: "", suite: "", label: "", outcome: "", words: "", inAnswers: false, said: null };
let matching = [];
let searchSerial = 0;
const SEARCH_PAUSE_MS = 150;

function setUpFilters(onChange) {
  const change = () => {
    readFilters();
    search(onChange);
  };
  const options = (values) => values.map((value) => [value, visible(value) || "(none)"]);
  setOptions("filter-run", [["", "all"], ...report.runs.map((run, number) => [String(number), visible(run.id)])]);
  setOptions("filter-suite", [["", "all"], ...options(suites).map(([value, word]) => [`=${value}`, word])]);
  setOptions("filter-model", [["", "all"], ...options(labels)]);
  const seen = new Set(calls.outcome);
  const outcomes = report.outcomes.filter((_, code) => seen.has(code));
  setOptions("filter-outcome", [
    ["", "all"],
    ["wrong", "not passed"],
    ...outcomes.map((name) => [name, OUTCOMES[name].word]),
  ]);
  document.querySelector(".for-runs").hidden = !severalRuns;
  const form = byId("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", change);
  form.addEventListener("reset", () => setTimeout(change));
  let pause = 0;
  byId("filter-text").addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(change, SEARCH_PAUSE_MS);
  });
  readFilters();
  match();
}

function setOptions(id, options) {
  fill(
    id,
    options.map(([value, word]) => html("option", { value }, shortened(word, 60))),
  );
}

function setFilter(id, value) {
  byId(id).value = value;
  byId("filters").dispatchEvent(new Event("change"));
}

function readFilters() {
  view.run = byId("filter-run").value;
  view.suite = byId("filter-suite").value;
  view.label = byId("filter-model").value;
  view.outcome = byId("filter-outcome").value;
  view.words = byId("filter-text").value.trim().toLowerCase();
  view.inAnswers = byId("filter-answers").checked;
}

async function search(onChange) {
  const serial = ++searchSerial;
  view.said = null;
  if (view.words && view.inAnswers) {
    byId("matching").textContent = "searching the answers…";
    const said = await callsSaying(view.words, () => serial === searchSerial);
    if (serial !== searchSerial) return;
    view.said = said;
  }
  match();
  onChange();
}

function isTargetShown(target) {
  return (view.run === "" || target.run === Number(view.run)) && (view.label === "" || target.label === view.label);
}

function isSuiteShown(suite) {
  return view.suite === "" || view.suite === `=${suite}`;
}

// In the order of the runs' own summaries; of several runs, those of one model stand together.
function shownTargets() {
  const shown = report.targets.map((target, number) => ({ ...target, number })).filter(isTargetShown);
  return severalRuns ? sortRows(shown, (target) => labels.indexOf(target.label), false) : shown;
}

// Whether a figure of a whole model is what is asked for, and not one of some of its calls.
function isWholeModel() {
  return view.suite === "" && view.outcome === "" && view.words === "";
}

function match() {
  const targets = report.targets.map(isTargetShown);
  const prompts = report.prompts.map(([suite]) => isSuiteShown(suite));
  matching = [];
  for (let call = 0; call < calls.n; call++) {
    if (targets[calls.target[call]] && prompts[calls.prompt[call]] && hasOutcome(call) && hasWords(call)) {
      matching.push(call);
    }
  }
  byId("matching").textContent =
    matching.length === calls.n ? plural(calls.n, "call") : `${count(matching.length)} of ${plural(calls.n, "call")}`;
}

function hasOutcome(call) {
  if (view.outcome === "") return true;
  const name = outcomeName(call);
  return view.outcome === "wrong" ? name !== "pass" && name !== "no_verdict" : name === view.outcome;
}

function hasWords(call) {
  if (view.words === "" || view.said?.has(call)) return true;
  const named = [
    promptTitle(calls.prompt[call]),
    callTarget(call).label,
    callString("why", call),
    callString("tools", call),
  ];
  return named.some((text) => text.toLowerCase().includes(view.words));
}

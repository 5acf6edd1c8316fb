// What is looked at: run, suite, model, outcome and words narrow every chart and list below them.

const view = { run: "", suite: "", label: "", outcome: "", words: "", inAnswers: false, foundInAnswers: null };
let matching = [];
let searchSerial = 0;
const SEARCH_PAUSE_MS = 150;

function setUpFilters(onChange) {
  const change = () => {
    readFilters();
    search(onChange);
  };
  const choose = () => {
    writeAddress();
    change();
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
  form.addEventListener("change", choose);
  form.addEventListener("reset", () => setTimeout(choose));
  let pause = 0;
  byId("filter-text").addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(choose, SEARCH_PAUSE_MS);
  });
  addEventListener("hashchange", () => {
    if (readAddress()) change();
    else if (!location.hash.includes("=")) writeAddress();
  });
  readAddress();
  readFilters();
  match();
  if (view.words && view.inAnswers) search(onChange);
}

// The filters stand in the address, behind its hash sign, so that what is seen can be passed on.
const ADDRESSED = [
  ["run", "filter-run", runNumber, (number) => report.runs[number].id],
  ["suite", "filter-suite", (value) => `=${value}`, (value) => value.slice(1)],
  ["model", "filter-model", String, String],
  ["outcome", "filter-outcome", String, String],
  ["words", "filter-text", String, String],
];

function runNumber(id) {
  return String(report.runs.findIndex((run) => run.id === id));
}

function addressed(name) {
  return location.hash.includes("=") ? new URLSearchParams(location.hash.slice(1)).get(name) : null;
}

// Whether the address says other than the filters do. A name of a section says nothing of them.
function readAddress() {
  if (!location.hash.includes("=")) return false;
  const before = filterWords();
  for (const [name, id, read] of ADDRESSED) {
    const value = addressed(name);
    byId(id).value = value === null ? "" : read(value);
    // A choice that is not there, as of another run.
    if (byId(id).selectedIndex === -1) byId(id).value = "";
  }
  byId("filter-answers").checked = addressed("answers") !== null;
  return filterWords() !== before;
}

function filterWords() {
  const words = new URLSearchParams();
  for (const [name, id, , write] of ADDRESSED) if (byId(id).value.trim()) words.set(name, write(byId(id).value.trim()));
  if (words.has("words") && byId("filter-answers").checked) words.set("answers", "1");
  return words.toString();
}

function writeAddress(call = null) {
  const address = [filterWords(), call === null ? "" : callAddress(call).slice(1)].filter(Boolean).join("&");
  history.replaceState(null, "", address ? `#${address}` : location.href.split("#")[0]);
}

function setOptions(id, options) {
  fill(
    id,
    options.map(([value, word]) => html("option", { value }, shortened(word, 60))),
  );
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
  view.foundInAnswers = null;
  if (view.words && view.inAnswers) {
    byId("matching").textContent = "searching the answers…";
    const found = await callsSaying(view.words, () => serial === searchSerial);
    if (serial !== searchSerial) return;
    view.foundInAnswers = found;
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

// The best first; of several runs, those of one model stand together.
function shownTargets() {
  const shown = report.targets.map((target, number) => ({ ...target, number })).filter(isTargetShown);
  return sortRows(shown, (target) => labels.indexOf(target.label), false);
}

// Whether a call is among those that the figures shown are of.
function isCounted(call) {
  return view.suite !== "" || !isInContext(call);
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
  return view.outcome === "wrong" ? !["pass", "no_verdict", "not_asked"].includes(name) : name === view.outcome;
}

function hasWords(call) {
  if (view.words === "" || view.foundInAnswers?.has(call)) return true;
  const named = [
    promptTitle(calls.prompt[call]),
    callTarget(call).label,
    callString("why", call),
    callString("tools", call),
  ];
  return named.some((text) => text.toLowerCase().includes(view.words));
}

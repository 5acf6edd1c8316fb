// What the page is about, as its other parts read it. A field an older run never recorded is null here, never an error.

const report = JSON.parse(byId("data").textContent);

const calls = { n: report.calls.n, strings: report.calls.strings };
for (const [name, column] of Object.entries(report.calls.columns)) {
  calls[name] = Array.isArray(column) ? column : new Array(report.calls.n).fill(column.every ?? null);
}

const severalRuns = report.runs.length > 1;
const suites = [...new Set(report.prompts.map(([suite]) => suite))];
// In the verdict's order, the best first.
const labels = [
  ...new Set([
    ...report.runs.flatMap((run) => run.models.map(([label]) => label)),
    ...report.targets.map((target) => target.label),
  ]),
];

// Prompts in the user's own context are no part of a whole model's figures; alone they have their own.
function isInContext(call) {
  return report.inContext.includes(report.prompts[calls.prompt[call]][0]);
}

function callTarget(call) {
  return report.targets[calls.target[call]];
}

function callRun(call) {
  return report.runs[callTarget(call).run];
}

function callString(column, call) {
  const number = calls[column][call];
  return number < 0 ? "" : calls.strings[number];
}

function promptTitle(prompt) {
  const [suite, id, name] = report.prompts[prompt];
  const place = suite ? `${suite}/${id}` : id;
  return name && name !== id ? `${place} ${name}` : place;
}

// The same in every report made from the same folder, so that a link to a call can be passed on.
function callKey(call) {
  const [suite, id] = report.prompts[calls.prompt[call]];
  return `${callRun(call).id}/${callTarget(call).label}/${suite}/${id}#${calls.repeat[call]}`;
}

let callsByKey = null;

function callWithKey(key) {
  if (callsByKey === null) {
    callsByKey = new Map();
    // Backwards: of two calls with one key the first is meant.
    for (let call = calls.n - 1; call >= 0; call--) callsByKey.set(callKey(call), call);
  }
  return callsByKey.get(key);
}

function callAddress(call) {
  return `#call=${encodeURIComponent(callKey(call))}`;
}

// A target's name for a chart: with its run only where that tells two apart.
function targetTitle(target) {
  return severalRuns ? `${target.name} · ${report.runs[target.run].id}` : target.name;
}

// Figures and their columns, as the report made them: {value, text}, of a rate its parts too. Nothing here is reckoned,
// except of the calls that a reader has picked by words or by outcome, which no report knows.

// A column of figures; `cellsOf` finds the cells of a row by the names of their figures.
function figureColumn({ figure, label, title, bestFirst }, cellsOf) {
  return {
    name: figure,
    label,
    title: title || null,
    class: "number",
    bestFirst,
    value: (row) => cellsOf(row)?.[figure]?.value ?? null,
    cell: (row) => cellsOf(row)?.[figure]?.text ?? ABSENT,
  };
}

function modelColumn(title = (row) => row.title) {
  return { name: "model", label: "Model", class: "name", value: title };
}

// The cells of the suite that is chosen, or of the whole model; none where it was not asked that suite.
function shownCells(figures) {
  if (view.suite === "") return figures.cells;
  return figures.suites.find((suite) => isSuiteShown(suite.suite))?.cells ?? null;
}

// Type 7, as in summary.json.
function percentile(sorted, p) {
  if (!sorted.length) return null;
  const at = (sorted.length - 1) * p;
  const low = Math.floor(at);
  return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}

// What a call took that was cut off at its deadline: more than any that was not. No recorded time is as long.
const BEYOND_MS = 2 ** 60;
const LONGEST_MS = 2 ** 53;
const PICKED = [
  ["p50", 0.5, 0],
  ["p95", 0.95, 72],
  ["p99", 0.99, 368],
];

// The times of the picked calls, timeouts counted as longer than any answer, as cells named like `p50_ms`.
function timesOfPicked(times, deadlines) {
  const sorted = [...times, ...deadlines.map(() => BEYOND_MS)].sort((a, b) => a - b);
  const cells = {};
  for (const [name, p, needed] of PICKED) {
    const value = percentile(sorted, p);
    const beyond = value !== null && value > LONGEST_MS;
    cells[`${name}_ms`] = timeCell(beyond ? Math.min(...deadlines) : value, sorted.length, {
      beyond,
      indicative: sorted.length < needed,
    });
  }
  const total = times.reduce((sum, time) => sum + time, 0);
  const mean = deadlines.length || !times.length ? null : total / times.length;
  cells.mean_ms = timeCell(mean, times.length, {});
  cells.n_timed = { value: sorted.length, text: count(sorted.length) };
  cells.n_timeouts = { value: deadlines.length, text: count(deadlines.length) };
  return cells;
}

function timeCell(value, n, { beyond = false, indicative = false }) {
  if (value === null) return { value, n, beyond, text: ABSENT };
  if (beyond) return { value, n, beyond, text: `> ${rounded(value / 1000, value >= 10000 ? 0 : 1)} s` };
  return { value, n, beyond, text: milliseconds(value) + (indicative ? "†" : "") };
}

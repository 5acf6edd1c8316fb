// Figures as a person reads them.

const ABSENT = "–";
const wholeNumbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function count(value) {
  return value === null || value === undefined ? ABSENT : wholeNumbers.format(value);
}

function plural(n, noun, many) {
  return `${count(n)} ${n === 1 ? noun : many || `${noun}s`}`;
}

// A half goes up, as in every other report: one figure must not be 140 here and 141 there.
function rounded(value, digits = 0) {
  return (Math.floor(value * 10 ** digits + 0.5) / 10 ** digits).toFixed(digits);
}

function percent(rate) {
  if (rate === null || rate === undefined) return ABSENT;
  if (rate > 0 && rate < 0.01) return "<1%";
  if (rate > 0.99 && rate < 1) return ">99%";
  return `${rounded(rate * 100)}%`;
}

function interval(bounds) {
  return bounds ? `${rounded(bounds[0] * 100)}–${rounded(bounds[1] * 100)}%` : ABSENT;
}

// A rate as it was reckoned for every report: `83% · 5/6`.
function rate(figure) {
  return figure?.n ? `${percent(figure.rate)} · ${count(figure.k)}/${count(figure.n)}` : ABSENT;
}

function milliseconds(value) {
  if (value === null || value === undefined) return ABSENT;
  if (value < 10) return `${Number(rounded(value, 1))} ms`;
  if (value < 1000) return `${rounded(value)} ms`;
  if (value < 120000) return `${rounded(value / 1000, value < 10000 ? 2 : 1)} s`;
  const seconds = Number(rounded(value / 1000));
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")} min`;
}

function decimals(value, digits) {
  return value === null || value === undefined ? ABSENT : rounded(value, digits);
}

function dollars(value) {
  if (value === null || value === undefined) return ABSENT;
  if (!value) return "$0";
  return `$${value.toFixed(Math.max(value >= 1 ? 2 : 4, 1 - Math.floor(Math.log10(Math.abs(value)))))}`;
}

function moment(ms) {
  const date = new Date(ms);
  if (!ms || Number.isNaN(date.getTime())) return ABSENT;
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
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

function indicativeOf(n) {
  return [...(n < 72 ? ["p95"] : []), ...(n < 368 ? ["p99"] : [])];
}

// The times of the calls that fit some words or an outcome, timeouts counted as longer than any answer: reckoned here,
// for no other report has them.
function describeTimes(times, deadlines) {
  const sorted = [...times, ...deadlines.map(() => BEYOND_MS)].sort((a, b) => a - b);
  const found = { n: sorted.length, beyond: [], indicative: indicativeOf(sorted.length) };
  for (const [name, p] of [["p50", 0.5], ["p95", 0.95], ["p99", 0.99]]) {
    found[name] = percentile(sorted, p);
    if (found[name] !== null && found[name] > LONGEST_MS) {
      found.beyond.push(name);
      found[name] = Math.min(...deadlines);
    }
  }
  found.mean = deadlines.length || !times.length ? null : times.reduce((sum, time) => sum + time, 0) / times.length;
  return found;
}

// One percentile: marked where it is only a hint, `> 300 s` where it lies among the timeouts.
function timeFigure(figures, name) {
  const value = figures?.[name];
  if (value === null || value === undefined) return ABSENT;
  if (figures.beyond?.includes(name)) return `> ${rounded(value / 1000, value >= 10000 ? 0 : 1)} s`;
  return milliseconds(value) + (figures.indicative?.includes(name) ? "†" : "");
}

// A violation or a failure as a person reads it: its code in words.
function whyWords(text) {
  const [code, ...rest] = text.split(":");
  return [/^\w+$/.test(code) ? code.replaceAll("_", " ") : code, ...rest].join(":");
}

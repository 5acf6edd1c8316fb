// Single values as a person reads them. A figure of a model comes with its text: see figures.js.

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

// A violation or a failure as a person reads it: its code in words.
function whyWords(text) {
  const [code, ...rest] = text.split(":");
  return [/^\w+$/.test(code) ? code.replaceAll("_", " ") : code, ...rest].join(":");
}

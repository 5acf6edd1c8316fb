// Figures as a person reads them.

const ABSENT = "–";
const wholeNumbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function count(value) {
  return value === null || value === undefined ? ABSENT : wholeNumbers.format(value);
}

function plural(n, noun, many) {
  return `${count(n)} ${n === 1 ? noun : many || `${noun}s`}`;
}

function percent(rate) {
  if (rate === null || rate === undefined) return ABSENT;
  if (rate > 0 && rate < 0.01) return "<1%";
  if (rate > 0.99 && rate < 1) return ">99%";
  return `${Math.round(rate * 100)}%`;
}

function interval(bounds) {
  return bounds ? `${Math.round(bounds[0] * 100)}–${Math.round(bounds[1] * 100)}%` : ABSENT;
}

function rate(k, n) {
  return n ? `${percent(k / n)} · ${count(k)}/${count(n)}` : ABSENT;
}

function milliseconds(value) {
  if (value === null || value === undefined) return ABSENT;
  if (value < 10) return `${Number(value.toFixed(1))} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 10000) return `${(value / 1000).toFixed(2)} s`;
  if (value < 120000) return `${(value / 1000).toFixed(1)} s`;
  return `${Math.floor(value / 60000)} min ${String(Math.round((value % 60000) / 1000)).padStart(2, "0")} s`;
}

function decimals(value, digits) {
  return value === null || value === undefined ? ABSENT : value.toFixed(digits);
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

function isIndicative(p, n) {
  return (p === 0.95 && n < 72) || (p === 0.99 && n < 368);
}

function daggered(value, p, n) {
  return value === null || value === undefined ? ABSENT : milliseconds(value) + (isIndicative(p, n) ? "†" : "");
}

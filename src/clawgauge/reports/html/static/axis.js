// Axes of time: where a value goes, and which values are worth a line.

function timeScale(values, from, to, logarithmic) {
  let low = Infinity;
  let high = 0;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!Number.isFinite(low)) {
    low = 1;
    high = 1000;
  }
  if (logarithmic) return logScale(Math.max(low, 0.5), Math.max(high, 1), from, to);
  return linearScale(high || 1, from, to);
}

function logScale(low, high, from, to) {
  const room = Math.max(Math.log10(high / low) * 0.04, 0.06);
  const start = Math.log10(low) - room;
  const span = Math.log10(high) + room - start;
  const exact = (value) => from + ((Math.log10(value) - start) / span) * (to - from);
  const place = (value) => exact(Math.max(value, low));
  const ticks = [];
  for (let power = Math.floor(start); power <= Math.ceil(start + span); power++) {
    for (const step of stepsOfTen(span)) {
      const tick = step * 10 ** power;
      if (Math.log10(tick) >= start && Math.log10(tick) <= start + span) ticks.push(tick);
    }
  }
  return { place, exact, ticks };
}

// The more powers of ten an axis spans, the fewer lines each of them gets.
function stepsOfTen(span) {
  if (span > 2.8) return [1];
  if (span > 1.6) return [1, 3];
  return [1, 2, 5];
}

function linearScale(high, from, to) {
  const rough = high / 5;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((candidate) => candidate >= rough);
  const ticks = [];
  for (let tick = 0; tick <= high * 1.0001; tick += step) ticks.push(tick);
  return { place: (value) => from + (value / (high * 1.03)) * (to - from), ticks };
}

function tickLabel(ms) {
  if (ms >= 60000 && ms % 60000 === 0) return `${ms / 60000} min`;
  return ms >= 1000 ? `${Number((ms / 1000).toPrecision(3))} s` : `${Number(ms.toPrecision(3))} ms`;
}

// A point is a line of no length with round ends: thousands of them are one path, quick to draw and sharp in print.
function pointPath(points, shape, size) {
  const half = size / 2;
  const outlines = {
    circle: (x, y) => `M${x} ${y}h0`,
    diamond: (x, y) => `M${x} ${y - half}l${half} ${half}l${-half} ${half}l${-half} ${-half}z`,
    square: (x, y) => `M${x - half} ${y - half}h${size}v${size}h${-size}z`,
    triangle: (x, y) => `M${x} ${y - half}l${half} ${size}h${-size}z`,
    cross: (x, y) => `M${x - half} ${y - half}l${size} ${size}M${x + half} ${y - half}l${-size} ${size}`,
  };
  const outline = outlines[shape];
  return points.map(([x, y]) => outline(Math.round(x * 10) / 10, Math.round(y * 10) / 10)).join("");
}

// Points a mouse can find: nearest within reach, by a grid of small squares.
class PointFinder {
  constructor() {
    this.cells = new Map();
    this.reach = 10;
  }

  add(x, y, call) {
    const key = `${Math.floor(x / this.reach)},${Math.floor(y / this.reach)}`;
    if (!this.cells.has(key)) this.cells.set(key, []);
    this.cells.get(key).push([x, y, call]);
  }

  nearest(x, y) {
    let best = null;
    let least = this.reach ** 2;
    const column = Math.floor(x / this.reach);
    const row = Math.floor(y / this.reach);
    for (let i = column - 1; i <= column + 1; i++) {
      for (let j = row - 1; j <= row + 1; j++) {
        for (const point of this.cells.get(`${i},${j}`) || []) {
          const distance = (point[0] - x) ** 2 + (point[1] - y) ** 2;
          if (distance < least) {
            best = point;
            least = distance;
          }
        }
      }
    }
    return best;
  }
}

// Pointing at a call names it, a click opens it. The keyboard's way to a call is the list of calls.
function listenForCalls(chart, finder, describe) {
  const hint = byId("hint");
  const find = (event) => {
    const box = chart.getBoundingClientRect();
    return finder.nearest(event.clientX - box.left, event.clientY - box.top);
  };
  chart.addEventListener("mousemove", (event) => {
    const point = find(event);
    chart.classList.toggle("on-point", Boolean(point));
    hint.hidden = !point;
    if (!point) return;
    const [, , call] = point;
    hint.replaceChildren(...describe(call).map((line) => html("span", {}, line)));
    hint.style.left = `${Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8)}px`;
    hint.style.top = `${Math.min(event.clientY + 14, innerHeight - hint.offsetHeight - 8)}px`;
  });
  chart.addEventListener("mouseleave", () => {
    hint.hidden = true;
  });
  chart.addEventListener("click", (event) => {
    const point = find(event);
    if (!point) return;
    const [, , call] = point;
    openCall(call);
  });
}

function describeCall(call) {
  const parts = [OUTCOMES[outcomeName(call)].word, milliseconds(calls.e2e[call])];
  if (calls.ttft[call] !== null) parts.push(`first token ${milliseconds(calls.ttft[call])}`);
  if (calls.cold[call]) parts.push("cold");
  return [visible(callTarget(call).label), visible(promptTitle(calls.prompt[call])), parts.join(" · ")];
}

// Time to the first token against time to the whole answer: who starts late, and who writes long.

const SHAPES = ["circle", "square", "triangle", "diamond"];
const N_COLOURS = 7;

function seriesStyle(label) {
  const number = labels.indexOf(label);
  const colour = number % N_COLOURS;
  // Who shares a colour has another shape.
  return { colour, shape: SHAPES[(colour + Math.floor(number / N_COLOURS)) % SHAPES.length] };
}

function drawFirstToken() {
  const shown = matching.filter(
    (call) =>
      isCounted(call) &&
      isAnswered(call) &&
      calls.sampled[call] &&
      calls.ttft[call] !== null &&
      calls.e2e[call] !== null,
  );
  byId("first-token-lead").textContent = shown.length
    ? `${plural(shown.length, "call")} with a first-token time. On the line the whole answer came at once; ` +
      "the further above it, the longer the writing took." +
      (view.suite !== "" || isPicked() ? " The median of first tokens is told of whole models alone." : "")
    : "No call here has a first-token time: it is captured where answers are streamed.";
  const rows = firstTokenRows(shown);
  fill("first-token-chart", shown.length ? [firstTokenScatter(rows, shown), firstTokenLegend(rows)] : []);
  byId("first-token").querySelector("details").hidden = !shown.length;
  fill("first-token-table", firstTokenTable(rows));
}

function firstTokenRows(shown) {
  const byTarget = new Map();
  for (const call of shown) {
    const number = calls.target[call];
    if (!byTarget.has(number)) byTarget.set(number, []);
    byTarget.get(number).push(call);
  }
  return shownTargets()
    .filter((target) => byTarget.has(target.number))
    .map((target) => ({
      label: target.label,
      title: visible(targetTitle(target)),
      calls: byTarget.get(target.number),
      ...firstTokenFigures(target, byTarget.get(target.number)),
    }));
}

// The medians of a whole model as every report has them; of a suite that of the whole answer; of picked calls none.
function firstTokenFigures({ figures }, shown) {
  const { ttft_p50_ms: ttft, p50_ms: e2e } = figures?.cells ?? {};
  const isWholeModel = view.suite === "";
  if (isPicked() || !figures) {
    const whole = isWholeModel && ttft ? { value: ttft.n } : null;
    return { n: countOfPicked(shown.length, whole), ttft: NO_FIGURE, e2e: NO_FIGURE };
  }
  if (isWholeModel) return { n: countOfPicked(ttft.n, null), ttft, e2e };
  return { n: countOfPicked(shown.length, null), ttft: NO_FIGURE, e2e: shownCells(figures)?.p50_ms ?? NO_FIGURE };
}

function firstTokenInWords({ title, n, ttft, e2e }) {
  const medians = [];
  if (ttft !== NO_FIGURE) medians.push(`median first token ${ttft.text}, `);
  if (e2e !== NO_FIGURE) medians.push(`whole answer ${e2e.text}, `);
  return `${title}: ${medians.join("")}${countInWords(n, "call")}`;
}

function firstTokenScatter(rows, shown) {
  const width = chartWidth("first-token-chart");
  const height = Math.round(Math.min(440, Math.max(300, width * 0.45)));
  const left = 58;
  const right = width - 14;
  const top = 12;
  const bottom = height - 42;
  const across = timeScale(
    shown.map((call) => calls.ttft[call]),
    left,
    right,
    true,
  );
  const upward = timeScale(
    shown.map((call) => calls.e2e[call]),
    bottom,
    top,
    true,
  );
  const chart = chartFrame(
    width,
    height,
    "Time to first token against time to the whole answer",
    rows.map(firstTokenInWords).join("; "),
  );
  for (const tick of across.ticks) {
    const x = across.place(tick);
    chart.append(
      svg("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }),
      svg("text", { class: "tick", x, y: bottom + 16, "text-anchor": "middle" }, tickLabel(tick)),
    );
  }
  for (const tick of upward.ticks) {
    const y = upward.place(tick);
    chart.append(
      svg("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
      svg("text", { class: "tick", x: left - 8, y: y + 4, "text-anchor": "end" }, tickLabel(tick)),
    );
  }
  chart.append(
    svg("text", { class: "soft small", x: right, y: height - 6, "text-anchor": "end" }, "first token →"),
    svg("text", { class: "soft small", x: left + 6, y: top + 10 }, "↑ whole answer"),
    atOnceLine(across, upward, { left, right, top, bottom }),
  );
  const finder = new PointFinder();
  const size = scatterPointSize(shown.length);
  for (const row of rows) {
    const { colour, shape } = seriesStyle(row.label);
    const points = row.calls.map((call) => [across.place(calls.ttft[call]), upward.place(calls.e2e[call]), call]);
    for (const point of points) finder.add(...point);
    chart.append(
      svg("path", {
        class: `series series-${colour} ${shape}`,
        "stroke-width": shape === "circle" ? size : 1,
        d: pointPath(points, shape, size),
      }),
    );
  }
  listenForCalls(chart, finder, describeCall);
  return chart;
}

// The more points, the smaller.
function scatterPointSize(n) {
  if (n > 4000) return 3;
  return n > 600 ? 4.5 : 6.5;
}

// Where both times are equal; both scales are logarithmic, so a straight line through any two such points.
function atOnceLine(across, upward, { left, right, top, bottom }) {
  const serial = (atOnceLine.serial = (atOnceLine.serial || 0) + 1);
  const ends = [10, 1000].map((ms) => [across.exact(ms), upward.exact(ms)]);
  const slope = (ends[1][1] - ends[0][1]) / (ends[1][0] - ends[0][0]);
  const yAt = (x) => ends[0][1] + slope * (x - ends[0][0]);
  return svg(
    "g",
    {},
    svg(
      "clipPath",
      { id: `plot-${serial}` },
      svg("rect", { x: left, y: top, width: right - left, height: bottom - top }),
    ),
    svg("line", {
      class: "at-once",
      x1: left,
      x2: right,
      y1: yAt(left),
      y2: yAt(right),
      "clip-path": `url(#plot-${serial})`,
    }),
  );
}

// A model has one colour in all its runs.
function firstTokenLegend(rows) {
  const names = new Map(rows.map((row) => [row.label, callTarget(row.calls[0]).name]));
  return html(
    "ul",
    { class: "legend" },
    [...names].map(([label, name]) => {
      const { colour, shape } = seriesStyle(label);
      const mark = svg(
        "svg",
        { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" },
        svg("path", {
          class: `series series-${colour} ${shape}`,
          "stroke-width": shape === "circle" ? 9 : 1,
          d: pointPath([[7, 7]], shape, 9),
        }),
      );
      return html("li", {}, mark, shortened(visible(name), 60));
    }),
  );
}

function firstTokenTable(rows) {
  return sortableTable(
    "First token and whole answer by model",
    [
      modelColumn(),
      {
        name: "n",
        label: "Calls",
        class: "number",
        bestFirst: true,
        value: (row) => row.n.value,
        cell: (row) => row.n.text,
      },
      {
        name: "ttft",
        label: "First token p50",
        class: "number",
        value: (row) => row.ttft.value,
        cell: (row) => row.ttft.text,
      },
      {
        name: "e2e",
        label: "Whole answer p50",
        class: "number",
        value: (row) => row.e2e.value,
        cell: (row) => row.e2e.text,
      },
    ],
    rows,
  );
}

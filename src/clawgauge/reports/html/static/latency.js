// Every successful call's time, model by model: the shape of the crowd, its median and its tail.

const latencyView = { logarithmic: true };

function drawLatency() {
  choiceButtons(
    "latency-choice",
    [
      [true, "Logarithmic"],
      [false, "Linear"],
    ],
    latencyView.logarithmic,
    (chosen) => {
      latencyView.logarithmic = chosen;
      drawLatency();
      byId("latency-choice").querySelector("[aria-pressed=true]").focus();
    },
  );
  const rows = latencyRows();
  const drawn = rows.reduce((sum, row) => sum + row.calls.length, 0);
  const cold = rows.some((row) => row.calls.some((call) => calls.cold[call] === 1));
  const left = matching.some((call) => !isCounted(call));
  byId("latency-lead").textContent =
    `Every point is one successful call (${count(drawn)} drawn); it is further from the line where more calls ` +
    "took as long. " +
    (isPicked()
      ? "The median and p95 are told of whole models and suites, not of calls picked by outcome or search."
      : "The long mark is the median, the dotted one p95; in both a timeout is longer than any answer.") +
    (cold ? " Diamonds are cold calls: the model had to be loaded first." : "") +
    (left ? " Calls in your own context are left out; choose their suite to see them." : "");
  fill("latency-chart", drawn ? latencyStrips(rows) : html("p", { class: "empty" }, "No successful call to show."));
  fill("latency-table", latencyTable(rows), anatomyTable(rows));
}

function latencyRows() {
  const rows = shownTargets().map((target) => ({
    ...target,
    title: visible(targetTitle(target)),
    calls: [],
    timeouts: 0,
  }));
  const byNumber = new Map(rows.map((row) => [row.number, row]));
  for (const call of matching.filter(isCounted)) {
    const row = byNumber.get(calls.target[call]);
    if (isAnswered(call) && calls.sampled[call] && calls.e2e[call] !== null) row.calls.push(call);
    else if (callString("why", call) === "timeout" && calls.sampled[call]) row.timeouts += 1;
  }
  for (const row of rows) row.cells = latencyCells(row);
  return rows;
}

// Of all recorded calls where a whole model or a suite is shown; of picked ones their number alone.
function latencyCells(row) {
  const recorded = row.figures ? shownCells(row.figures) : null;
  // Cold calls are told of the whole model, whatever is picked.
  const cold = row.figures?.cells.cold_p50_ms;
  if (recorded && !isPicked()) return { ...recorded, cold_p50_ms: cold };
  return {
    n_timed: countOfPicked(row.calls.length + row.timeouts, recorded?.n_timed),
    n_timeouts: countOfPicked(row.timeouts, recorded?.n_timeouts),
    p50_ms: NO_FIGURE,
    p95_ms: NO_FIGURE,
    p99_ms: NO_FIGURE,
    mean_ms: NO_FIGURE,
    cold_p50_ms: cold,
  };
}

function latencyInWords(row) {
  const { n_timed: timed, n_timeouts: timeouts, p50_ms: median, p95_ms: p95 } = row.cells;
  const figures = isPicked() ? "" : `median ${median.text}, p95 ${p95.text}, `;
  return `${row.title}: ${figures}${countInWords(timed, "call")}, ${countInWords(timeouts, "timeout")}`;
}

function latencyStrips(rows) {
  const width = chartWidth("latency-chart");
  const narrow = width < 620;
  const left = narrow ? 10 : Math.min(300, width * 0.3);
  const right = width - 16;
  const rowHeight = narrow ? 92 : 74;
  const top = 28;
  const height = top + rows.length * rowHeight + 4;
  const scale = timeScale(
    rows.flatMap((row) => row.calls.map((call) => calls.e2e[call])),
    left,
    right,
    latencyView.logarithmic,
  );
  const chart = chartFrame(
    width,
    height,
    "Latency of every successful call, by model",
    rows.map(latencyInWords).join("; "),
  );
  for (const tick of scale.ticks) chart.append(gridLine(scale.place(tick), top, height, tickLabel(tick)));
  const finder = new PointFinder();
  rows.forEach((row, number) =>
    chart.append(latencyStrip(row, top + number * rowHeight, scale, { left, right, narrow, rowHeight, width }, finder)),
  );
  listenForCalls(chart, finder, describeCall);
  return chart;
}

function latencyStrip(row, y, scale, { left, right, narrow, rowHeight, width }, finder) {
  const middle = y + rowHeight / 2 + (narrow ? 10 : 0);
  const spread = 22;
  const group = svg("g", {});
  const { n_timed: timed, n_timeouts: timeouts } = row.cells;
  const under = `n=${timed.text}${timeouts.value ? `, ${countInWords(timeouts, "timeout")} not drawn` : ""}`;
  group.append(svg("line", { class: "rule", x1: 0, x2: right, y1: y, y2: y }));
  if (narrow) {
    group.append(
      svg("text", { class: "row-label", x: 2, y: y + 18 }, shortened(row.title, Math.floor(width / 12))),
      svg("text", { class: "soft small", x: width - 6, y: y + 18, "text-anchor": "end" }, under),
    );
  } else {
    group.append(
      svg(
        "text",
        { class: "row-label", x: left - 14, y: middle - 1, "text-anchor": "end" },
        shortened(row.title, Math.floor(left / 8.4)),
      ),
      svg("text", { class: "soft small", x: left - 14, y: middle + 15, "text-anchor": "end" }, under),
    );
  }
  group.append(svg("title", {}, row.title));
  const points = crowd(row.calls, scale, middle, spread);
  for (const point of points) finder.add(...point);
  const size = stripPointSize(points.length);
  const isCold = (point) => calls.cold[point[2]] === 1;
  group.append(
    svg("path", {
      class: "point",
      "stroke-width": size,
      d: pointPath(
        points.filter((point) => !isCold(point)),
        "circle",
        size,
      ),
    }),
    svg("path", { class: "point-cold", d: pointPath(points.filter(isCold), "diamond", size + 4) }),
    percentileMark("p50", row, scale, middle, spread, right),
    percentileMark("p95", row, scale, middle, spread, right),
  );
  return group;
}

// The more points, the smaller.
function stripPointSize(n) {
  if (n > 2000) return 2.4;
  return n > 300 ? 3.4 : 5;
}

// The median's words stand above its mark and to the left, those of p95 below and to the right, where there is room.
function percentileMark(name, row, scale, middle, spread, right) {
  const { value, text: words } = row.cells[`${name}_ms`];
  if (value === null) return svg("g", {});
  const x = Math.min(right, scale.place(value));
  const leftward = name === "p50" ? x > 110 : x > right - 90;
  return svg(
    "g",
    { class: `percentile ${name}` },
    svg("line", { x1: x, x2: x, y1: middle - spread - 2, y2: middle + spread + 2 }),
    svg(
      "text",
      {
        class: "soft mark-label",
        x: leftward ? x - 5 : x + 5,
        y: name === "p50" ? middle - spread - 3 : middle + spread + 3,
        "text-anchor": leftward ? "end" : "start",
      },
      `${name} ${words}`,
    ),
    svg("title", {}, `${name} ${words}${words.endsWith("†") ? " (indicative: few calls)" : ""}`),
  );
}

// Calls that took alike stand in one column and are spread over it evenly, the more the wider. The same every time.
function crowd(shown, scale, middle, spread) {
  const columns = new Map();
  for (const call of shown) {
    const x = scale.place(calls.e2e[call]);
    const column = Math.round(x / 3);
    if (!columns.has(column)) columns.set(column, []);
    columns.get(column).push([x, call]);
  }
  const most = Math.max(...[...columns.values()].map((column) => column.length), 6);
  const points = [];
  for (const column of columns.values()) {
    const reach = spread * Math.sqrt(column.length / most);
    column.forEach(([x, call], place) => {
      const offset = column.length === 1 ? 0 : ((place + 0.5) / column.length) * 2 - 1;
      points.push([x, middle + offset * reach, call]);
    });
  }
  return points;
}

// Where the time went, of the servers that tell: the mean of each part, and its share.
function anatomyTable(rows) {
  const telling = rows.filter((row) => row.figures?.tellsServer);
  if (!telling.length) return null;
  const columns = report.columns.server.map((column) => figureColumn(column, (row) => row.figures.cells));
  return sortableTable("Where the time goes", [modelColumn(), ...columns], telling);
}

function latencyTable(rows) {
  const columns = report.columns.latency.map((column) => figureColumn(column, (row) => row.cells));
  return sortableTable("Latency by model", [modelColumn(), ...columns], rows);
}

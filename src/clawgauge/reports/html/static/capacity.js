// What a server can carry: throughput against the first token, step by step, and the first token by length of prompt.

const entries = report.runs.flatMap((run) =>
  (run.capacity || []).map((entry) => ({
    ...entry,
    title: `${visible(entry.target)} at ${entry.length}` + (severalRuns ? ` (${visible(run.id)})` : ""),
  })),
);

function drawCapacity() {
  const shown = entries.filter((entry) => entry.steps.length);
  byId("capacity").hidden = !shown.length;
  byId("capacity-link").hidden = !shown.length;
  if (!shown.length) return;
  byId("capacity-lead").textContent =
    "Each point is a steady load, with the number of clients (or arrivals a second) beside it: to the right more is " +
    "answered, further up the first token is later (p50). Hollow points were left out: this program was late.";
  const lines = shown.map((entry, number) => ({
    number,
    title: entry.title,
    points: entry.steps
      .filter((step) => step.cells.ttft_p50_ms.value !== null)
      .map((step) => ({
        x: step.cells.requests_per_s.value,
        y: step.cells.ttft_p50_ms.value,
        words: step.cells.ttft_p50_ms.text,
        label: step.levelText,
        hollow: !step.isTrusted,
      })),
  }));
  fill("capacity-load", capacityChart("capacity-load", "Throughput against first token", "requests/s →", lines));
  fill("capacity-legend", capacityLegend(lines));
  drawContext(shown);
  fill("capacity-table", capacityTable(shown));
}

function drawContext(shown) {
  const byTarget = new Map();
  for (const entry of shown) {
    const alone = entry.steps.find((step) => step.isLone) ?? entry.steps[0];
    const first = alone.cells.ttft_p50_ms;
    if (first.value === null) continue;
    if (!byTarget.has(entry.target)) byTarget.set(entry.target, []);
    byTarget.get(entry.target).push({
      x: alone.inputTokens ?? entry.contextTokens,
      y: first.value,
      words: first.text,
      label: entry.length,
      hollow: !alone.isTrusted,
    });
  }
  const lines = [...byTarget].map(([target, points], number) => ({ number, title: visible(target), points }));
  const several = lines.filter((line) => line.points.length > 1);
  const title = "First token of a lone call by length of prompt";
  const chart = several.length ? capacityChart("capacity-context", title, "prompt tokens →", several) : [];
  fill("capacity-context", chart);
}

function capacityChart(id, title, across, lines) {
  const width = byId(id).clientWidth || 900;
  const height = Math.round(Math.min(380, Math.max(260, width * 0.4)));
  const left = 64;
  const right = width - 30;
  const top = 24;
  const bottom = height - 42;
  const points = lines.flatMap((line) => line.points);
  const x = linearScale(Math.max(...points.map((point) => point.x)) || 1, left, right);
  const y = timeScale(
    points.map((point) => point.y),
    bottom,
    top,
    true,
  );
  const words = lines.map(lineInWords).join(". ");
  const chart = chartFrame(width, height, title, words);
  for (const tick of x.ticks) {
    chart.append(
      svg("line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: top, y2: bottom }),
      svg(
        "text",
        { class: "tick", x: x.place(tick), y: bottom + 16, "text-anchor": "middle" },
        String(Number(tick.toPrecision(6))),
      ),
    );
  }
  for (const tick of y.ticks) {
    chart.append(
      svg("line", { class: "grid", x1: left, x2: right, y1: y.place(tick), y2: y.place(tick) }),
      svg("text", { class: "tick", x: left - 8, y: y.place(tick) + 4, "text-anchor": "end" }, tickLabel(tick)),
    );
  }
  chart.append(
    svg("text", { class: "soft small", x: right, y: height - 6, "text-anchor": "end" }, across),
    svg("text", { class: "soft small", x: left, y: top - 10 }, `↑ first token · ${title}`),
  );
  for (const line of lines) {
    const places = line.points.map((point) => [x.place(point.x), y.place(point.y), point]);
    const colour = `series-${line.number % N_COLOURS}`;
    chart.append(
      svg("polyline", { class: `load-line ${colour}`, points: places.map(([a, b]) => `${a},${b}`).join(" ") }),
      ...places.map(([a, b, point]) =>
        svg("circle", { class: `load-point ${colour}${point.hollow ? " hollow" : ""}`, cx: a, cy: b, r: 4 }),
      ),
      ...places.map(([a, b, point]) => svg("text", { class: "soft mark-label", x: a + 6, y: b - 6 }, point.label)),
    );
  }
  return chart;
}

function lineInWords(line) {
  const points = line.points.map((point) => `${point.label}: ${decimals(point.x, 2)}, ${point.words}`);
  return `${line.title}: ${points.join("; ")}`;
}

function capacityLegend(lines) {
  return lines.map((line) =>
    html(
      "li",
      {},
      svg(
        "svg",
        { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" },
        svg("circle", { class: `load-point series-${line.number % N_COLOURS}`, cx: 7, cy: 7, r: 4 }),
      ),
      shortened(line.title, 80),
    ),
  );
}

function capacityTable(shown) {
  const rows = shown.flatMap((entry) => entry.steps.map((step) => ({ ...step, title: entry.title })));
  const load = { name: "title", label: "Load", class: "name", value: (row) => row.title };
  const level = {
    name: "level",
    label: "At once, or a second",
    class: "number",
    value: (row) => row.level,
    cell: (row) => row.levelText,
  };
  const columns = report.columns.load.map((column) => figureColumn(column, (row) => row.cells));
  return sortableTable("Every step", [load, level, ...columns], rows);
}

// What a server can carry: throughput against the first token, step by step, and the first token by length of prompt.

const entries = report.runs.flatMap((run) =>
  (run.capacity || []).map((entry) => ({
    ...entry,
    title:
      `${visible(entry.target)} at ${thousands(entry.context_tokens)}` + (severalRuns ? ` (${visible(run.id)})` : ""),
  })),
);

function thousands(tokens) {
  return tokens >= 1000 ? `${Number((tokens / 1000).toPrecision(3))}k` : String(tokens);
}

function drawCapacity() {
  const shown = entries.filter((entry) => entry.steps.length);
  byId("capacity").hidden = byId("capacity-link").hidden = !shown.length;
  if (!shown.length) return;
  byId("capacity-lead").textContent =
    "Each point is a steady load, with the number of clients (or arrivals a second) beside it: to the right more is " +
    "answered, further up the first token is later (p50). Hollow points were left out: this program was late.";
  const lines = shown.map((entry, number) => ({
    number,
    title: entry.title,
    points: entry.steps
      .filter((step) => step.ttft_ms.p50 !== null)
      .map((step) => ({
        x: step.requests_per_s,
        y: step.ttft_ms.p50,
        label: String(step.concurrency ?? step.rate),
        hollow: !step.trusted,
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
    const alone = entry.steps.find((step) => step.concurrency === 1) ?? entry.steps[0];
    if (alone.ttft_ms.p50 === null) continue;
    if (!byTarget.has(entry.target)) byTarget.set(entry.target, []);
    byTarget.get(entry.target).push({
      x: alone.input_tokens ?? entry.context_tokens,
      y: alone.ttft_ms.p50,
      label: thousands(entry.context_tokens),
      hollow: !alone.trusted,
    });
  }
  const lines = [...byTarget].map(([target, points], number) => ({ number, title: visible(target), points }));
  const several = lines.filter((line) => line.points.length > 1);
  const title = "First token of a lone call by length of prompt";
  fill("capacity-context", several.length ? capacityChart("capacity-context", title, "prompt tokens →", several) : []);
}

function capacityChart(id, title, across, lines) {
  const width = byId(id).clientWidth || 900;
  const height = Math.round(Math.min(380, Math.max(260, width * 0.4)));
  const [left, right, top, bottom] = [64, width - 30, 24, height - 42];
  const points = lines.flatMap((line) => line.points);
  const x = linearScale(Math.max(...points.map((point) => point.x)) || 1, left, right);
  const y = timeScale(
    points.map((point) => point.y),
    bottom,
    top,
    true,
  );
  const words = lines
    .map((line) => `${line.title}: ${line.points.map((p) => `${p.label}: ${decimals(p.x, 2)}, ${milliseconds(p.y)}`).join("; ")}`)
    .join(". ");
  const chart = chartFrame(width, height, title, words);
  for (const tick of x.ticks) {
    chart.append(
      svg("line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: top, y2: bottom }),
      svg("text", { class: "tick", x: x.place(tick), y: bottom + 16, "text-anchor": "middle" }, String(Number(tick.toPrecision(6)))),
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
  const figure = (name, label, read, cell) => ({
    name,
    label,
    class: "number",
    value: (row) => read(row) ?? null,
    cell: (row) => cell(read(row)),
  });
  const time = (name, p) => figure(`${name}-${p}`, `${name} ${p}`, (row) => row[`${name}_ms`]?.[p], milliseconds);
  return sortableTable(
    "Every step",
    [
      { name: "title", label: "Load", class: "name", value: (row) => row.title },
      figure("level", "At once, or a second", (row) => row.concurrency ?? row.rate, (value) => String(value ?? ABSENT)),
      figure("n", "Calls", (row) => row.n, count),
      figure("rps", "Requests/s", (row) => row.requests_per_s, (value) => decimals(value, 2)),
      figure("tps", "Tokens/s", (row) => row.output_tokens_per_s, (value) => decimals(value, 0)),
      time("ttft", "p50"),
      time("ttft", "p95"),
      time("tpot", "p50"),
      time("itl", "p95"),
      time("e2e", "p95"),
      figure("slo", "Within limits", (row) => row.attained, (value) => (value == null ? ABSENT : percent(value))),
      figure("failed", "Failed", (row) => row.n_failed, count),
    ],
    rows,
  );
}

// Quality against latency, a call's cost as size: who is worth the wait, and the money.

// Room for a character of a name, and of the words after it.
const NAME_ROOM = 8.2;
const COST_ROOM = 6.8;
const LINE_ROOM = 15;
// What a name needs to find a place beside its mark; where more stand, they are numbers there, and names in a list
// below.
const NAME_WIDTH = 95;
const MIN_NAMED = 5;

function tradeoffRows(run) {
  const number = report.runs.indexOf(run);
  return run.models.map(([label, name, cost, costWords], place) => {
    const figures = report.targets.find((target) => target.run === number && target.label === label)?.figures;
    const passed = figures?.cells.passed_of_asked;
    const median = figures?.cells.p50_ms;
    return {
      label,
      place: place + 1,
      cost,
      costWords,
      title: visible(name),
      cells: figures?.cells ?? null,
      passed,
      median,
      drawn: Boolean(passed?.n && median.value !== null && !median.beyond),
    };
  });
}

function tradeoff(run) {
  const rows = tradeoffRows(run);
  const drawn = rows.filter((row) => row.drawn);
  if (!drawn.length) return null;
  const out = rows.filter((row) => !row.drawn).map((row) => row.title);
  const leftOut = out.length ? ` Not drawn, for want of an answer or a verdict: ${out.join(", ")}.` : "";
  return html(
    "section",
    { class: "tradeoff" },
    html("h3", {}, "Quality against latency"),
    html(
      "p",
      { class: "lead" },
      "Up is better, left is faster. The larger the mark, the more a call costs: the smallest are free of charge, " +
        `hollow ones have no known cost.${leftOut}`,
    ),
    html("figure", { class: "chart" }, tradeoffChart(drawn)),
    isNumbered(drawn) ? html("ol", { class: "tradeoff-names" }, drawn.map(tradeoffName)) : null,
    html("details", { class: "as-table" }, html("summary", {}, "These figures as a table"), tradeoffTable(rows)),
  );
}

function isNumbered(rows) {
  return rows.length > Math.max(MIN_NAMED, Math.floor(chartWidth("findings") / NAME_WIDTH));
}

function tradeoffName(row) {
  return html("li", { value: row.place }, row.title, html("span", { class: "soft" }, ` ${row.costWords}`));
}

function tradeoffInWords(row) {
  return `${row.title}: passed ${row.passed.ofCounts}, median ${row.median.text}, ${row.costWords}`;
}

function tradeoffChart(rows) {
  const width = chartWidth("findings");
  const height = Math.round(Math.min(380, Math.max(280, width * 0.38)));
  const isNarrow = width < 620;
  const left = 44;
  const right = width - (isNarrow ? 60 : 130);
  const top = 36;
  const bottom = height - 40;
  const across = timeScale(
    rows.map((row) => row.median.value),
    left + 14,
    right,
    true,
  );
  const upward = (share) => bottom - share * (bottom - top);
  const words = rows.map(tradeoffInWords).join("; ");
  const chart = chartFrame(width, height, "Passed prompts against median time of a call", words);
  for (const tick of across.ticks) {
    const x = across.place(tick);
    chart.append(
      svg("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }),
      svg("text", { class: "tick", x, y: bottom + 16, "text-anchor": "middle" }, tickLabel(tick)),
    );
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const y = upward(share);
    chart.append(
      svg("line", { class: "grid", x1: left, x2: width, y1: y, y2: y }),
      svg("text", { class: "tick", x: left - 6, y: y + 4, "text-anchor": "end" }, percent(share)),
    );
  }
  chart.append(
    svg("text", { class: "soft small", x: width, y: height - 6, "text-anchor": "end" }, "median of a whole call →"),
    svg("text", { class: "soft small", x: 0, y: 12 }, "↑ passed of asked"),
  );
  const dearest = Math.max(...rows.map((row) => row.cost ?? 0));
  const largest = isNarrow ? 16 : 26;
  const marks = rows.map((row) => ({
    row,
    x: across.place(row.median.value),
    y: upward(row.passed.value),
    size: 12 + (row.cost ? largest * Math.sqrt(row.cost / dearest) : 0),
    numbered: isNumbered(rows),
  }));
  for (const mark of [...marks].sort((a, b) => b.size - a.size)) chart.append(tradeoffMark(mark));
  const taken = marks.map(({ row, x, y, size }) => ({
    row,
    from: x - size / 2,
    to: x + size / 2,
    top: y - size / 2,
    bottom: y + size / 2,
  }));
  const byHeight = [...marks].sort((a, b) => a.y - b.y || a.x - b.x);
  for (const mark of byHeight) chart.append(tradeoffLabel(mark, taken, width, bottom));
  return chart;
}

function tradeoffMark({ row, x, y, size }) {
  const { colour, shape } = seriesStyle(row.label);
  const attributes = { class: `tradeoff-mark series-${colour}${row.cost === null ? " unknown" : ""}` };
  const mark =
    shape === "circle"
      ? svg("circle", { ...attributes, cx: x, cy: y, r: size / 2 })
      : svg("path", { ...attributes, d: pointPath([[x, y]], shape, size) });
  mark.append(svg("title", {}, tradeoffInWords(row)));
  return mark;
}

// Beside its mark, where there is room; else a line further down, with a thread to it.
function tradeoffLabel({ row, x, y, size, numbered }, taken, width, bottom) {
  const name = numbered ? String(row.place) : shortened(row.title, width < 620 ? 16 : 30);
  const cost = width < 620 || numbered ? "" : `  ${row.costWords}`;
  const room = name.length * NAME_ROOM + cost.length * COST_ROOM;
  const leftward = x + size / 2 + 6 + room > width && x - size / 2 - 6 - room > 0;
  const from = leftward ? x - size / 2 - 6 - room : x + size / 2 + 6;
  const isApart = (box, at) => at - 11 > box.bottom || at + 3 < box.top || from > box.to || from + room < box.from;
  const isFree = (at) => taken.every((box) => box.row === row || isApart(box, at));
  const lines = [0, 1, -1, 2, -2, 3, 4, 5, 6].map((n) => y + 4 + n * LINE_ROOM);
  const at = lines.find((line) => line < bottom + 4 && line > 26 && isFree(line)) ?? y + 4;
  taken.push({ from, to: from + room, top: at - 11, bottom: at + 3 });
  return svg(
    "g",
    {},
    Math.abs(at - y - 4) > 1
      ? svg("line", { class: "thread", x1: x, y1: y, x2: leftward ? from + room + 2 : from - 2, y2: at - 4 })
      : null,
    svg(
      "text",
      { class: "mark-name", x: leftward ? from + room : from, y: at, "text-anchor": leftward ? "end" : "start" },
      name,
      cost ? svg("tspan", { class: "soft" }, cost) : null,
    ),
  );
}

function tradeoffTable(rows) {
  const columns = report.columns.tradeoff.map((column) => figureColumn(column, (row) => row.cells));
  const cost = { name: "cost", label: "Cost", class: "number", value: (row) => row.cost, cell: (row) => row.costWords };
  return html(
    "div",
    { class: "scrolls" },
    sortableTable("Passed prompts, time and cost of every model", [modelColumn(), ...columns, cost], rows),
  );
}

// Rates as bars with their 95% intervals: how much was passed, and how sure that is.

const ratesView = { figure: report.columns.rates[0].figure };

// The pass rate is that of the suite that is chosen; the other rates are of a whole model.
function shownRate(target, figure) {
  const isPassRate = figure === report.columns.rates[0].figure;
  const cells = isPassRate ? shownCells(target.figures) : target.figures.cells;
  return {
    title: visible(targetTitle(target)),
    cell: cells?.[figure] ?? NO_RATE,
    asked: (isPassRate && cells?.passed_of_asked) || NO_RATE,
  };
}

const NO_RATE = { value: null, text: ABSENT, n: 0, interval: null };

function drawRates() {
  const targets = report.targets.filter((target) => target.figures);
  const known = report.columns.rates.filter(
    ({ figure }, place) => place === 0 || targets.some((target) => shownRate(target, figure).cell.n),
  );
  choiceButtons(
    "rates-choice",
    known.map(({ figure, label }) => [figure, label]),
    ratesView.figure,
    (figure) => {
      ratesView.figure = figure;
      drawRates();
      byId("rates-choice").querySelector("[aria-pressed=true]").focus();
    },
  );
  const drawn = report.columns.rates.find(({ figure }) => figure === ratesView.figure);
  const rows = shownTargets()
    .filter((target) => target.figures)
    .map((target) => shownRate(target, drawn.figure));
  byId("rates-lead").textContent =
    drawn.lead + (view.outcome || view.words ? " Outcome and search do not change these rates." : "");
  fill("rates-chart", rows.length ? rateBars(drawn, rows) : html("p", { class: "empty" }, "No model to show."));
  fill("rates-table", ratesTable(drawn, rows));
  drawCategories();
}

// Kinds of prompts, or lengths of text, as the suite sorts them.
function drawCategories() {
  const rows = shownTargets().flatMap((target) =>
    (target.figures?.suites ?? [])
      .filter((suite) => isSuiteShown(suite.suite))
      .flatMap((suite) =>
        suite.categories.map(({ category, cell }) => ({
          title: visible(targetTitle(target)),
          suite: visible(suite.suite),
          category: visible(category),
          key: JSON.stringify([suite.suite, category]),
          cell,
          asked: NO_RATE,
        })),
      ),
  );
  const named = (name, label) => ({ name, label, class: "name", value: (row) => row[name] });
  const names = [named("suite", "Suite"), named("category", "Category")];
  const columns = isPrinting
    ? [...names, ...rateColumns("Passed, all models", []), named("others", "Not all passed by")]
    : [named("title", "Model"), ...names, ...rateColumns(report.columns.rates[0].label, rows)];
  byId("categories").hidden = !rows.length;
  const shown = isPrinting ? byCategory(rows) : rows;
  fill("categories-table", rows.length ? sortableTable("Pass rate by category", columns, shown) : "");
}

// Paper has a row a category, and names those alone who did not pass all of it: not a row for every model.
function byCategory(rows) {
  const totals = new Map();
  for (const total of report.categoryTotals) {
    const isOfRun = view.run === "" ? total.run === null : total.run === Number(view.run);
    const isOfModel = view.label === "" ? total.model === null : total.model === view.label;
    if (isOfRun && isOfModel) totals.set(JSON.stringify([total.suite, total.category]), total.cell);
  }
  return [...Map.groupBy(rows, (row) => row.key)].map(([key, models]) => ({
    ...models[0],
    cell: totals.get(key) ?? NO_RATE,
    others: models
      .filter((row) => row.cell.value < 1)
      .map((row) => `${row.title} ${row.cell.counts}`)
      .join(", "),
  }));
}

function rateBars(drawn, rows) {
  const width = chartWidth("rates-chart");
  const narrow = width < 620;
  const left = narrow ? 4 : Math.min(300, width * 0.3);
  const right = narrow ? width - 8 : width - 215;
  const rowHeight = narrow ? 62 : 40;
  const top = 26;
  const height = top + rows.length * rowHeight + 6;
  const chart = chartFrame(width, height, `${drawn.label} by model`, rows.map(rateInWords).join("; "));
  const place = (share) => left + share * (right - left);
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) chart.append(gridLine(place(tick), top, height, `${tick * 100}%`));
  for (const [bound, name] of drawn.bounds) {
    chart.append(
      svg("line", { class: "threshold", x1: place(bound), x2: place(bound), y1: top, y2: height }),
      svg("text", { class: "threshold-label", x: place(bound) + 4, y: height - 1 }, `${name} →`),
    );
  }
  rows.forEach((row, number) =>
    chart.append(rateBar(row, top + number * rowHeight, place, { left, right, narrow, width })),
  );
  return chart;
}

function rateInWords(row) {
  const { cell } = row;
  if (!cell.n) return `${row.title}: none`;
  return `${row.title}: ${cell.percent}, ${cell.ofCounts}, 95% interval ${cell.interval ?? ABSENT}`;
}

function gridLine(x, top, bottom, label) {
  return svg(
    "g",
    {},
    svg("line", { class: "grid", x1: x, x2: x, y1: top - 6, y2: bottom }),
    svg("text", { class: "tick", x, y: top - 12, "text-anchor": "middle" }, label),
  );
}

function rateBar(row, y, place, { left, right, narrow, width }) {
  const { cell, asked } = row;
  const middle = y + (narrow ? 36 : 20);
  const group = svg("g", { class: "rate" });
  group.append(
    narrow
      ? svg("text", { class: "row-label", x: left, y: y + 18 }, shortened(row.title, Math.floor(width / 12)))
      : svg(
          "text",
          { class: "row-label", x: left - 12, y: middle + 4, "text-anchor": "end" },
          shortened(row.title, Math.floor(left / 8.4)),
        ),
    svg("title", {}, row.title),
  );
  const words = cell.n ? `${cell.percent}  ${cell.counts}` : "no verdict";
  group.append(
    svg(
      "text",
      narrow
        ? { class: "row-value", x: width - 6, y: y + 18, "text-anchor": "end" }
        : { class: "row-value", x: right + 14, y: middle + 4 },
      words,
      !narrow && cell.interval ? svg("tspan", { class: "soft" }, `  ${cell.interval}`) : null,
    ),
  );
  group.append(
    svg("rect", { class: "track", x: place(0), y: middle - 7, width: place(1) - place(0), height: 14, rx: 2 }),
  );
  if (!cell.n) return group;
  group.append(
    svg("rect", {
      class: "bar",
      x: place(0),
      y: middle - 7,
      width: Math.max(1.5, place(cell.value) - place(0)),
      height: 14,
      rx: 2,
    }),
  );
  if (asked.n) {
    group.append(
      svg(
        "rect",
        {
          class: "bar-asked",
          x: place(0),
          y: middle + 9,
          width: Math.max(1, place(asked.value) - place(0)),
          height: 3,
        },
        svg("title", {}, `of asked: ${asked.text}`),
      ),
    );
  }
  if (cell.interval) {
    const low = place(cell.low);
    const high = place(cell.high);
    group.append(
      svg("path", {
        class: "whisker",
        d: `M${low} ${middle - 5}v10M${low} ${middle}H${high}M${high} ${middle - 5}v10`,
      }),
    );
  }
  return group;
}

function ratesTable(drawn, rows) {
  const columns = [modelColumn(), ...rateColumns(drawn.label, rows)];
  return sortableTable(`${drawn.label} by model`, columns, rows);
}

function rateColumns(label, rows) {
  const column = (name, of) => ({
    class: "number",
    bestFirst: true,
    ...name,
    value: (row) => of(row).value,
    cell: (row) => of(row).text,
  });
  const interval = {
    name: "low",
    label: "95% interval",
    class: "number",
    bestFirst: true,
    value: (row) => row.cell.low ?? null,
    cell: (row) => row.cell.interval ?? ABSENT,
  };
  return [
    column({ name: "rate", label }, (row) => row.cell),
    ...(rows.some((row) => row.cell.interval) ? [interval] : []),
    ...(rows.some((row) => row.asked.n) ? [column({ name: "asked", label: "Of asked" }, (row) => row.asked)] : []),
  ];
}

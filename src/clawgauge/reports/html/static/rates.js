// Rates as bars with their 95% intervals: how much was passed, and how sure that is.

const ratesView = { metric: "pass" };

const METRICS = {
  pass: {
    label: "Pass rate",
    of: (f) => passRateOf(f),
    lead:
      "Of the answers that have a verdict, how many met it. The whisker is the Wilson 95% interval; " +
      "the thin bar counts unanswered calls as not passed.",
  },
  tools: {
    label: "Tool use",
    of: (f) => rateOf(f.tool_use),
    tiers: true,
    lead: "How often an expected tool was called. From 80% a model is Tier 1, from 50% Tier 2.",
  },
  arguments: {
    label: "Right arguments",
    of: (f) => rateOf(f.argument_accuracy),
    lead: "Calls with the right arguments, of the prompts that offer tools and expect a call.",
  },
  restraint: {
    label: "Restraint",
    of: (f) => rateOf(f.restraint),
    lead: "How often a model held back where no call was wanted.",
  },
  agreement: {
    label: "Agreement",
    of: (f) => rateOf(f.agreement),
    lead: "How often a model did what the incumbent did, in moments of your own history. Agreement is not truth.",
  },
  tasks: { label: "Tasks", of: (f) => rateOf(f.tasks), lead: "Tasks of several turns brought to the wanted end." },
};

function rateOf(figure) {
  return figure
    ? { k: figure.k, n: figure.n, rate: figure.rate, ci: figure.ci95 }
    : { k: 0, n: 0, rate: null, ci: null };
}

function passRateOf(figures) {
  const part = shownPart(figures);
  return part ? { ...rateOf(part.passed), asked: part.passed_of_asked } : rateOf(null);
}

// The figures of the suite that is chosen, or of the whole model; none where it was not asked that suite.
function shownPart(figures) {
  return view.suite === "" ? figures : figures.suites.find((suite) => isSuiteShown(suite.suite));
}

function drawRates() {
  const known = Object.entries(METRICS).filter(
    ([name, metric]) =>
      name === "pass" || report.targets.some((target) => target.figures && metric.of(target.figures).n),
  );
  choiceButtons(
    "rates-choice",
    known.map(([name, metric]) => [name, metric.label]),
    ratesView.metric,
    (name) => {
      ratesView.metric = name;
      drawRates();
      byId("rates-choice").querySelector("[aria-pressed=true]").focus();
    },
  );
  const metric = METRICS[ratesView.metric];
  const rows = shownTargets()
    .filter((target) => target.figures)
    .map((target) => ({ title: visible(targetTitle(target)), ...metric.of(target.figures) }));
  byId("rates-lead").textContent =
    metric.lead + (view.outcome || view.words ? " Outcome and search do not change these rates." : "");
  fill("rates-chart", rows.length ? rateBars(metric, rows) : html("p", { class: "empty" }, "No model to show."));
  fill("rates-table", ratesTable(metric, rows));
  drawCategories();
}

// Kinds of prompts, or lengths of text, as the suite sorts them.
function drawCategories() {
  const rows = shownTargets().flatMap((target) =>
    (target.figures?.suites ?? [])
      .filter((suite) => isSuiteShown(suite.suite))
      .flatMap((suite) =>
        Object.entries(suite.by_category ?? {}).map(([category, figure]) => ({
          title: visible(targetTitle(target)),
          suite: visible(suite.suite),
          category: visible(category),
          ...rateOf(figure),
        })),
      ),
  );
  const named = (name, label) => ({ name, label, class: "name", value: (row) => row[name] });
  const names = [named("suite", "Suite"), named("category", "Category")];
  const columns = isPrinting
    ? [...names, ...rateColumns({ label: "Passed, all models" }, []), named("others", "Not all passed by")]
    : [named("title", "Model"), ...names, ...rateColumns(METRICS.pass, rows)];
  byId("categories").hidden = !rows.length;
  const shown = isPrinting ? byCategory(rows) : rows;
  fill("categories-table", rows.length ? sortableTable("Pass rate by category", columns, shown) : "");
}

// Paper has a row a category, and names those alone who did not pass all of it: not a row for every model.
function byCategory(rows) {
  return [...Map.groupBy(rows, (row) => JSON.stringify([row.suite, row.category])).values()].map((models) => ({
    ...models[0],
    ...addUp(models),
    others: models
      .filter((row) => row.k < row.n)
      .map((row) => `${row.title} ${row.k}/${row.n}`)
      .join(", "),
  }));
}

// Of all models that are shown together, which no other report has.
function addUp(models) {
  const k = models.reduce((sum, row) => sum + row.k, 0);
  const n = models.reduce((sum, row) => sum + row.n, 0);
  return { k, n, rate: n ? k / n : null, ci: null };
}

function rateBars(metric, rows) {
  const width = chartWidth("rates-chart");
  const narrow = width < 620;
  const left = narrow ? 4 : Math.min(300, width * 0.3);
  const right = narrow ? width - 8 : width - 215;
  const rowHeight = narrow ? 62 : 40;
  const top = 26;
  const height = top + rows.length * rowHeight + 6;
  const chart = chartFrame(width, height, `${metric.label} by model`, rows.map(rateInWords).join("; "));
  const place = (share) => left + share * (right - left);
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) chart.append(gridLine(place(tick), top, height, `${tick * 100}%`));
  if (metric.tiers) {
    for (const [bound, name] of [
      [0.8, "Tier 1"],
      [0.5, "Tier 2"],
    ]) {
      chart.append(
        svg("line", { class: "threshold", x1: place(bound), x2: place(bound), y1: top, y2: height }),
        svg("text", { class: "threshold-label", x: place(bound) + 4, y: height - 1 }, `${name} →`),
      );
    }
  }
  rows.forEach((row, number) =>
    chart.append(rateBar(row, top + number * rowHeight, place, { left, right, narrow, width })),
  );
  return chart;
}

function rateInWords(row) {
  if (!row.n) return `${row.title}: none`;
  return `${row.title}: ${percent(row.rate)}, ${row.k} of ${row.n}, 95% interval ${interval(row.ci)}`;
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
  const words = row.n ? `${percent(row.rate)}  ${count(row.k)}/${count(row.n)}` : "no verdict";
  group.append(
    svg(
      "text",
      narrow
        ? { class: "row-value", x: width - 6, y: y + 18, "text-anchor": "end" }
        : { class: "row-value", x: right + 14, y: middle + 4 },
      words,
      !narrow && row.ci ? svg("tspan", { class: "soft" }, `  ${interval(row.ci)}`) : null,
    ),
  );
  group.append(
    svg("rect", { class: "track", x: place(0), y: middle - 7, width: place(1) - place(0), height: 14, rx: 2 }),
  );
  if (!row.n) return group;
  group.append(
    svg("rect", {
      class: "bar",
      x: place(0),
      y: middle - 7,
      width: Math.max(1.5, place(row.rate) - place(0)),
      height: 14,
      rx: 2,
    }),
  );
  if (row.asked?.n) {
    group.append(
      svg(
        "rect",
        {
          class: "bar-asked",
          x: place(0),
          y: middle + 9,
          width: Math.max(1, place(row.asked.rate) - place(0)),
          height: 3,
        },
        svg("title", {}, `of asked: ${rate(row.asked)}`),
      ),
    );
  }
  if (row.ci) {
    const [low, high] = row.ci.map(place);
    group.append(
      svg("path", {
        class: "whisker",
        d: `M${low} ${middle - 5}v10M${low} ${middle}H${high}M${high} ${middle - 5}v10`,
      }),
    );
  }
  return group;
}

function ratesTable(metric, rows) {
  const model = { name: "model", label: "Model", class: "name", value: (row) => row.title };
  return sortableTable(`${metric.label} by model`, [model, ...rateColumns(metric, rows)], rows);
}

function rateColumns(metric, rows) {
  const share = (name, label, of) => ({
    name,
    label,
    class: "number",
    bestFirst: true,
    value: (row) => of(row)?.rate ?? null,
    cell: (row) => rate(of(row)),
  });
  const low = {
    name: "low",
    label: "95% interval",
    class: "number",
    bestFirst: true,
    value: (row) => row.ci?.[0] ?? null,
    cell: (row) => interval(row.ci),
  };
  const asked = share("asked", "Of asked", (row) => row.asked);
  return [
    share("rate", metric.label, (row) => row),
    ...(rows.some((row) => row.ci) ? [low] : []),
    ...(rows.some((row) => row.asked?.n) ? [asked] : []),
  ];
}

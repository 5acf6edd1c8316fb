// One row a model: the figures to decide by.

// How each kind of figure stands in this table: a rate over its counts, the rest as text.
const RATES_OF_MODELS = ["objective_pass_rate", "passed_of_asked", "answered"];

function modelColumns() {
  const columns = report.columns.models.map((column) => {
    const figure = figureColumn(column, (target) => target.figures?.cells);
    if (!RATES_OF_MODELS.includes(column.figure)) return figure;
    return { ...figure, cell: (target) => rateCell(target.figures?.cells[column.figure]) };
  });
  return [
    { name: "label", label: "Model", class: "name", value: modelLabel, cell: modelName },
    {
      name: "tier",
      label: "Tool use",
      title: report.columns.tierNote,
      class: "tier",
      value: tierOrder,
      cell: tierCell,
    },
    ...columns,
    ...(report.targets.some((target) => target.figures?.cost.total) ? [COST_COLUMN] : []),
  ];
}

const COST_COLUMN = {
  name: "cost",
  label: "Cost",
  class: "number cost",
  title: "of a call, and of all of them",
  value: (target) => target.figures?.cost.value ?? null,
  cell: costCell,
};

function rateCell(cell) {
  if (!cell?.n) return ABSENT;
  return [
    html("span", { class: "strong" }, cell.percent),
    html(
      "span",
      { class: "under" },
      `${cell.counts} `,
      cell.interval ? html("span", { class: "whole" }, `· ${cell.interval}`) : null,
    ),
  ];
}

function costCell(target) {
  const words = report.runs[target.run].models.find(([label]) => label === target.label)?.[3] ?? ABSENT;
  const total = target.figures?.cost.total;
  return [words, total ? html("span", { class: "under" }, total) : null];
}

function modelLabel(target) {
  return visible(target.label);
}

function modelName(target) {
  const provider = target.label.slice(0, target.label.length - target.name.length).replace(/:$/, "");
  return [
    html("span", { class: "strong", title: visible(target.label) }, visible(target.name)),
    html("span", { class: "under" }, visible(provider)),
    severalRuns ? html("span", { class: "under" }, visible(report.runs[target.run].id)) : null,
  ];
}

function tierOrder(target) {
  return target.figures?.tier?.order ?? null;
}

function tierCell(target) {
  const tier = target.figures?.tier;
  if (!tier) return ABSENT;
  return [
    html(
      "span",
      { class: `tier-badge tier-${tier.tier}${tier.isDecided ? "" : " provisional"}` },
      `Tier ${tier.tier}`,
      html(
        "span",
        { class: "so-far" },
        `${tier.isDecided ? "" : " so far"}${tier.source ? ` · ${visible(tier.source)}` : ""}`,
      ),
    ),
    tierBar(tier.chances),
    html("span", { class: "under" }, tier.counts),
  ];
}

// How probable each tier is, as three lengths of one bar.
function tierBar(chances) {
  if (!chances.length) return null;
  const width = 96;
  let x = 0;
  const words = chances.map((chance) => chance.text).join(", ");
  return svg(
    "svg",
    {
      class: "tier-bar",
      width,
      height: 6,
      viewBox: `0 0 ${width} 6`,
      role: "img",
      "aria-label": `probability: ${words}`,
    },
    svg("title", {}, words),
    ...chances.map((chance, place) => {
      const piece = svg("rect", {
        class: `tier-${place + 1}`,
        x,
        y: 0,
        width: Math.max(0, chance.value * width - 1),
        height: 6,
        rx: 1,
      });
      x += chance.value * width;
      return piece;
    }),
  );
}

function drawModels() {
  const rows = shownTargets();
  fill(
    "models-table",
    rows.length
      ? sortableTable("Figures of every model, the best first", modelColumns(), rows)
      : html("p", { class: "empty" }, "No model to show."),
  );
}

// One row a model: the figures to decide by.

const TIER_NOTE = "Tool-use tier: 1 from 80% of the tool prompts, 2 from 50%, 3 below";

function modelColumns() {
  const figure = (name, label, read, options = {}) => ({
    name,
    label,
    class: "number",
    value: (target) => (target.figures ? (read(target.figures) ?? null) : null),
    ...options,
  });
  const rateCell = ({ k, n, rate: share, ci95 }) =>
    n
      ? [
          html("span", { class: "strong" }, percent(share)),
          html(
            "span",
            { class: "under" },
            `${count(k)}/${count(n)} `,
            ci95 ? html("span", { class: "whole" }, `· ${interval(ci95)}`) : null,
          ),
        ]
      : ABSENT;
  const share = (name, label, of, options = {}) =>
    figure(name, label, (f) => of(f).rate, {
      bestFirst: true,
      cell: ({ figures: f }) => (f ? rateCell(of(f)) : ABSENT),
      ...options,
    });
  const time = (name, label, of, options = {}) =>
    figure(options.name ?? name, label, (f) => of(f)?.[name], {
      cell: ({ figures: f }) => (f ? timeFigure(of(f), name) : ABSENT),
      ...options,
    });
  return [
    { name: "label", label: "Model", class: "name", value: (target) => visible(target.label), cell: modelName },
    { name: "tier", label: "Tool use", title: TIER_NOTE, class: "tier", value: tierOrder, cell: tierCell },
    share("passed", "Pass rate", (f) => f.passed, { title: "of the judged answers, with its 95% interval" }),
    share("asked", "Of asked", (f) => f.passed_of_asked, {
      title: "of all prompts asked that have a verdict, answered or not",
    }),
    share("answered", "Answered", (f) => f.answered),
    time("p50", "p50", (f) => f.timed_ms, {
      title: "median time to the whole answer; a timeout is longer than any",
    }),
    time("p95", "p95", (f) => f.timed_ms),
    time("p99", "p99", (f) => f.timed_ms),
    time("p50", "First token", (f) => f.ttft_ms, { name: "ttft", title: "median time to the first token" }),
    figure("tps", "Tokens/s", (f) => f.output_tps?.p50, {
      bestFirst: true,
      cell: ({ figures: f }) => decimals(f?.output_tps?.p50, 1),
    }),
    figure("cost", "Cost", (f) => f.cost?.per_call_usd, {
      class: "number cost",
      title: "of a call, and of all of them",
      cell: costCell,
    }),
  ].filter((column) => column.name !== "cost" || report.targets.some((target) => target.figures?.cost_usd != null));
}

function costCell(target) {
  const words = report.runs[target.run].models.find(([label]) => label === target.label)?.[3] ?? ABSENT;
  const all = target.figures?.cost_usd;
  return [words, all == null ? null : html("span", { class: "under" }, `${dollars(all)} in all`)];
}

function modelName(target) {
  const provider = target.label.slice(0, target.label.length - target.name.length).replace(/:$/, "");
  return [
    html("span", { class: "strong", title: visible(target.label) }, visible(target.name)),
    html("span", { class: "under" }, visible(provider)),
    severalRuns ? html("span", { class: "under" }, visible(report.runs[target.run].id)) : null,
  ];
}

// Better tiers first; within a tier the surer one first.
function tierOrder(target) {
  const use = target.figures?.tool_use;
  return use?.tier ? use.tier - (use.p_tier?.[use.tier - 1] ?? 0) / 2 : null;
}

function tierCell(target) {
  const use = target.figures?.tool_use;
  if (!use?.tier) return ABSENT;
  const sure = use.p_tier ? `, ${percent(use.p_tier[use.tier - 1])} sure` : "";
  return [
    html(
      "span",
      { class: `tier-badge tier-${use.tier}${use.decided ? "" : " provisional"}` },
      `Tier ${use.tier}`,
      html(
        "span",
        { class: "so-far" },
        `${use.decided ? "" : " so far"}${use.source ? ` · ${visible(use.source)}` : ""}`,
      ),
    ),
    tierBar(use.p_tier),
    html("span", { class: "under" }, `${count(use.k)}/${count(use.n)}${sure}`),
  ];
}

// How probable each tier is, as three lengths of one bar.
function tierBar(chances) {
  if (!chances) return null;
  const width = 96;
  let x = 0;
  const words = chances.map((chance, place) => `Tier ${place + 1} ${percent(chance)}`).join(", ");
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
        width: Math.max(0, chance * width - 1),
        height: 6,
        rx: 1,
      });
      x += chance * width;
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

// Which model for which job: jobs down, models across, the best first; each cell has its mark, its colour and its reason.

const FITS = {
  yes: { mark: "✓", tone: "is-pass", words: "fit" },
  no: { mark: "✗", tone: "is-fail", words: "not fit" },
  cannot_tell: { mark: "?", tone: "is-no_verdict", words: "cannot tell yet" },
};

function jobsTable(run) {
  if (!run.jobs.length) return null;
  const heading = [html("th", { scope: "col" }, "job"), html("th", { scope: "col" }, "take")];
  const models = run.models.map((model) => html("th", { scope: "col", class: "job-model" }, visible(model[1])));
  return html(
    "div",
    { class: "jobs-frame" },
    html(
      "table",
      { class: "jobs" },
      html("caption", {}, "Which model for which job"),
      html("thead", {}, html("tr", {}, ...heading, ...models)),
      html("tbody", {}, ...run.jobs.map((job) => jobRow(job, run.models))),
    ),
  );
}

function jobRow(job, models) {
  return html(
    "tr",
    {},
    html("th", { scope: "row" }, visible(job.job)),
    html("td", { class: "job-choice" }, html("strong", {}, visible(job.use)), html("span", { class: "about" }, ` ${visible(job.why)}`)),
    ...models.map(([label]) => {
      const [fit, why] = job.fits[label] ?? ["cannot_tell", ""];
      const { mark, tone, words } = FITS[fit] ?? FITS.cannot_tell;
      return html(
        "td",
        { class: `job-fit ${tone}`, title: visible(why) },
        html("span", { "aria-hidden": "true" }, mark),
        html("span", { class: "hidden" }, `${words}: ${visible(why)}`),
      );
    }),
  );
}

// Which model for which job: jobs down, models across, the best first; each cell has its mark, its colour and its
// reason.

const FITS = {
  yes: { mark: "✓", tone: "is-pass", words: "fit" },
  no: { mark: "✗", tone: "is-fail", words: "not fit" },
  cannot_tell: { mark: "?", tone: "is-no_verdict", words: "cannot tell yet" },
};

function jobsTable(run) {
  if (!run.jobs.length) return null;
  // The roles are said, for on a phone the rows are no longer laid out as a table.
  const column = (words, name) => html("th", { scope: "col", role: "columnheader", class: name }, words);
  const heading = [column("job"), column("take")];
  const models = run.models.map((model) => column(html("span", {}, visible(model[1])), "job-model"));
  const many = run.models.length > 8 ? " many" : "";
  return html(
    "div",
    { class: "jobs-frame", tabindex: 0, role: "region", "aria-label": "Which model for which job" },
    html("h3", {}, "Which model for which job"),
    // On a phone the answers come first, and the marks of all models under them.
    html("dl", { class: "jobs-answers" }, ...run.jobs.map(jobAnswer)),
    html(
      "table",
      { class: `jobs${many}`, role: "table" },
      html("caption", { class: "hidden" }, "Which model for which job"),
      html("thead", { role: "rowgroup" }, html("tr", { role: "row" }, ...heading, ...models)),
      html("tbody", { role: "rowgroup" }, ...run.jobs.map((job) => jobRow(job, run.models))),
    ),
  );
}

function jobAnswer(job) {
  return html("div", {}, html("dt", {}, visible(job.job)), html("dd", {}, ...choiceWords(job)));
}

function choiceWords(job) {
  return [html("strong", {}, visible(job.use)), html("span", { class: "about" }, ` ${visible(job.why)}`)];
}

function jobRow(job, models) {
  return html(
    "tr",
    { role: "row" },
    html("th", { scope: "row", role: "rowheader" }, visible(job.job)),
    html("td", { class: "job-choice", role: "cell" }, ...choiceWords(job)),
    ...models.map(([label, name]) => {
      const [fit, why] = job.fits[label] ?? ["cannot_tell", ""];
      const { mark, tone, words } = FITS[fit] ?? FITS.cannot_tell;
      return html(
        "td",
        { class: `job-fit ${tone}`, role: "cell", title: visible(why) },
        html("span", { "aria-hidden": "true" }, mark),
        html("span", { class: "job-name", "aria-hidden": "true" }, visible(name)),
        html("span", { class: "hidden" }, `${words}: ${visible(why)}`),
      );
    }),
  );
}

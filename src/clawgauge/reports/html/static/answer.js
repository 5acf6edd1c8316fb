// The top of the page: which runs, what they say, and what this file leaves out.

// More about a question waits behind a click.
const MAX_NOTES = 4;

function drawHeader() {
  byId("run-names").textContent = report.runs.map((run) => visible(run.id)).join(", ");
  byId("run-about").textContent = severalRuns
    ? `${report.runs.length} runs, ${plural(report.shown.ofCalls, "call")}`
    : [visible(report.runs[0]?.about ?? "no run"), ...startOf(report.runs[0])].join(" · ");
  byId("generated-at").textContent = ` on ${moment(Date.parse(report.generatedAt))}`;
}

function startOf(run) {
  return run?.startedAt ? [moment(run.startedAt)] : [];
}

function drawAnswer() {
  const shown = report.runs.filter((_, number) => view.run === "" || Number(view.run) === number);
  fill(
    "findings",
    shown.map((run) =>
      html(
        "div",
        { class: "run-findings" },
        severalRuns ? html("h3", {}, visible(run.id), html("span", { class: "about" }, ` ${run.about}`)) : null,
        jobsTable(run),
        tradeoff(run),
        html("div", { class: "cards" }, run.findings.map(findingCard)),
      ),
    ),
  );
}

function findingCard(finding) {
  return html(
    "article",
    { class: "card" },
    html("h3", { class: "question" }, finding.question),
    html("p", { class: "answer" }, visible(finding.answer)),
    noteList(finding.notes.slice(0, MAX_NOTES)),
    moreNotes(finding.notes.slice(MAX_NOTES)),
  );
}

function moreNotes(notes) {
  if (!notes.length) return null;
  return html("details", {}, html("summary", {}, `${notes.length} more`), noteList(notes));
}

function noteList(notes) {
  if (!notes.length) return null;
  return html(
    "ul",
    { class: "notes" },
    notes.map((note) => html("li", {}, visible(note))),
  );
}

function drawLimits() {
  const { shown } = report;
  const sentences = [];
  if (!shown.all) {
    sentences.push(
      `Figures, rates and percentiles count all ${count(shown.ofCalls)} calls. ` +
        `Listed are ${count(shown.calls)}: a sample of ${count(shown.sampled)}, chosen by a hash of each call’s ` +
        `name and so the same every time, and the first ${count(shown.wrong)} of the ${count(shown.ofWrong)} that ` +
        "failed or were not answered; some are both. The charts of single calls draw the sample alone.",
    );
  }
  if (shown.cutChars !== null) {
    sentences.push(
      `To keep this file small, ${plural(shown.cutTexts, "long text")} were cut to ${count(shown.cutChars)} ` +
        "characters; results.jsonl in the run folder has them whole.",
    );
  }
  byId("not-all").textContent = sentences.join(" ");
  byId("not-all").hidden = !sentences.length;
}

function drawConditions() {
  fill(
    "conditions-list",
    report.runs.map((run) =>
      html(
        "dl",
        {},
        [...run.conditions, ...startOf(run).map((at) => ["Started", at])].map(([name, value]) =>
          html("div", {}, html("dt", {}, name), html("dd", {}, visible(value))),
        ),
      ),
    ),
  );
}

"use strict";
// Follows a run: rows come as server-sent events and are put in as text, never as markup.
(() => {
  const SHOWN = 200;
  const byId = (id) => document.getElementById(id);
  if (!byId("rows")) return;
  const targets = byId("targets").tBodies[0];
  const rows = byId("rows").tBodies[0];
  const ms = (value) => (value === null ? "–" : value >= 10000 ? `${(value / 1000).toFixed(1)} s` : `${value} ms`);
  const WORDS = {
    pass: "✓ pass", fail: "✗ fail", no_verdict: "answered", no_answer: "no answer", error: "error",
    rate_limited: "rate limited", auth_error: "key refused", unavailable: "not there",
  };

  const cell = (text, side) => {
    const made = document.createElement("td");
    made.textContent = text;
    if (side) made.className = side;
    return made;
  };

  const showTargets = (counts, planned) => {
    const lines = Object.keys({ ...planned, ...counts }).map((label) => {
      const own = counts[label] || {};
      const all = Object.values(own).reduce((sum, n) => sum + n, 0);
      const passed = own.pass || 0;
      const failed = own.fail || 0;
      const line = document.createElement("tr");
      line.append(cell(label), cell(`${all}/${planned[label] || all}`, "right"), cell(passed, "right"));
      line.append(cell(failed, "right"), cell(all - passed - failed - (own.no_verdict || 0), "right"));
      const bar = document.createElement("progress");
      bar.max = planned[label] || all || 1;
      bar.value = all;
      bar.setAttribute("aria-label", `${label}: ${all} of ${bar.max}`);
      const place = document.createElement("td");
      place.append(bar);
      line.append(place);
      return line;
    });
    targets.replaceChildren(...lines);
  };

  const addRows = (news) => {
    const made = news.slice(-SHOWN).map((row) => {
      const line = document.createElement("tr");
      line.className = `is-${row.outcome}`;
      const prompt = cell(row.prompt);
      prompt.title = row.name;
      line.append(prompt, cell(row.target), cell(WORDS[row.outcome] || row.outcome, "outcome"));
      line.append(cell(ms(row.ttft_ms), "right"), cell(ms(row.e2e_ms), "right"), cell(row.why));
      return line;
    });
    rows.prepend(...made.reverse());
    while (rows.rows.length > SHOWN) rows.deleteRow(-1);
  };

  const source = new EventSource(byId("rows").dataset.source);
  source.onmessage = (event) => {
    const news = JSON.parse(event.data);
    showTargets(news.counts, news.planned);
    addRows(news.rows);
    byId("state").textContent = news.running ? "running" : "ended";
    byId("state").className = news.running ? "running" : "";
    if (!news.running) source.close();
  };
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) byId("state").textContent = "the view does not answer; trying again";
    // What is sent again after a pause begins with what was shown already.
    rows.replaceChildren();
  };
})();

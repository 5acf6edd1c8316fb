"use strict";
// Follows a run: rows come as server-sent events and are put in as text, never as markup.
(() => {
  const SHOWN = 200;
  const byId = (id) => document.getElementById(id);
  if (!byId("rows")) return;
  const targets = byId("targets").tBodies[0];
  const rows = byId("rows").tBodies[0];
  // As in the report: a half goes up.
  const seconds = (value, digits) => `${(Math.floor((value / 1000) * 10 ** digits + 0.5) / 10 ** digits).toFixed(digits)} s`;
  const ms = (value) => (value === null ? "–" : value < 1000 ? `${value} ms` : seconds(value, value < 10000 ? 2 : 1));
  const inWords = (why) => why.replace(/^\w+/, (code) => code.replaceAll("_", " "));
  const WORDS = {
    pass: "✓ pass", fail: "✗ fail", no_verdict: "answered", no_answer: "no answer", error: "error",
    rate_limited: "rate limited", auth_error: "key refused", unavailable: "not there", not_asked: "not asked",
  };

  const cell = (text, side) => {
    const made = document.createElement("td");
    made.textContent = text;
    if (side) made.className = side;
    return made;
  };

  // Without their providers where that tells them apart, as in every report.
  let names = {};
  const nameModels = (labels) => {
    const withoutProvider = (label) => label.slice(label.indexOf(":") + 1) || label;
    const withoutFolder = (name) => (/\.gguf(@\w+)?$/i.test(name) ? name.split(/[/\\]/).pop() : name);
    const bare = labels.map((label) => withoutFolder(withoutProvider(label)));
    const isOne = (name) => bare.filter((other) => other === name).length === 1;
    names = Object.fromEntries(labels.map((label, place) => [label, isOne(bare[place]) ? bare[place] : label]));
  };

  const showTargets = (counts, planned) => {
    const labels = Object.keys({ ...planned, ...counts });
    nameModels(labels);
    const lines = labels.map((label) => {
      const outcomes = counts[label] || {};
      const all = Object.values(outcomes).reduce((sum, n) => sum + n, 0);
      const passed = outcomes.pass || 0;
      const failed = outcomes.fail || 0;
      const unasked = outcomes.not_asked || 0;
      const line = document.createElement("tr");
      line.append(cell(names[label]), cell(`${all}/${planned[label] || all}`, "right"), cell(passed, "right"));
      line.append(cell(failed, "right"), cell(all - passed - failed - unasked - (outcomes.no_verdict || 0), "right"));
      const bar = document.createElement("progress");
      bar.max = planned[label] || all || 1;
      bar.value = all;
      bar.setAttribute("aria-label", `${label}: ${all} of ${bar.max}`);
      const place = cell("", "bar");
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
      line.append(cell(WORDS[row.outcome] || row.outcome, "outcome"), prompt, cell(names[row.target] || row.target));
      line.append(cell(inWords(row.why), "why"), cell(ms(row.ttft_ms), "right"), cell(ms(row.e2e_ms), "right"));
      return line;
    });
    rows.prepend(...made.reverse());
    while (rows.rows.length > SHOWN) rows.deleteRow(-1);
  };

  const RETRY_MS = 5000;
  const address = byId("rows").dataset.source;
  const state = byId("state");
  let source = null;
  let ended = false;

  const showNews = (news) => {
    // What is sent first, and after a pause, is the whole state.
    if (news.from_start) rows.replaceChildren();
    showTargets(news.counts, news.planned);
    addRows(news.rows);
    state.textContent = news.state;
    state.className = news.state;
    if (news.state === "interrupted") {
      const command = document.createElement("code");
      command.textContent = state.dataset.resume;
      state.append(": go on with ", command);
    }
    byId("report").textContent = news.running ? "The report so far" : "The report";
  };

  const stop = () => {
    if (source) source.close();
    source = null;
  };

  const follow = () => {
    if (source || ended || document.hidden) return;
    source = new EventSource(address);
    source.onmessage = (event) => {
      const news = JSON.parse(event.data);
      showNews(news);
      ended = !news.running;
      if (ended) stop();
    };
    source.onerror = () => {
      state.className = "";
      if (source.readyState !== EventSource.CLOSED) {
        state.textContent = "the view does not answer; trying again";
        return;
      }
      stop();
      explain();
    };
  };

  // An event source does not tell why it was refused; a plain request does.
  const explain = async () => {
    const controller = new AbortController();
    try {
      const reply = await fetch(address, { signal: controller.signal });
      if (!reply.ok) state.textContent = await reply.text();
    } catch {
      state.textContent = "the view does not answer; trying again";
    }
    controller.abort();
    setTimeout(follow, RETRY_MS);
  };

  // A browser opens only a few connections to one server: those that nobody looks at leave them to the others.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  follow();
})();

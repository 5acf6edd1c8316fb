// What is looked at: which calls, and which figures are shown of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./page.mjs";

const NAMES = [
  "view",
  "match",
  "matching",
  "calls",
  "report",
  "outcomeName",
  "callTarget",
  "callString",
  "shownTargets",
  "shownCells",
  "isPicked",
  "countOfPicked",
  "countInWords",
  "latencyRows",
  "latencyTable",
  "latencyInWords",
  "firstTokenRows",
  "isAnswered",
  "drawLatency",
  "drawFirstToken",
  "drawModels",
  "drawRates",
  "drawMatrix",
  "drawAnswer",
  "drawHeader",
  "drawConditions",
  "drawLimits",
  "setUpCalls",
  "drawCalls",
  "drawCapacity",
];

function look(changes) {
  const page = load(NAMES);
  Object.assign(page.view, changes);
  page.match();
  return page;
}

const shown = (page) => page.matching.map((call) => page.outcomeName(call));

test("without a filter every call is looked at", () => {
  const page = look({});
  assert.equal(page.matching.length, page.calls.n);
  assert.equal(page.textOf("matching"), `${page.calls.n} calls`);
  assert.ok(!page.isPicked());
});

test("an outcome, and all that did not pass", () => {
  assert.deepEqual(new Set(shown(look({ outcome: "fail" }))), new Set(["fail"]));
  const wrong = new Set(shown(look({ outcome: "wrong" })));
  assert.ok(wrong.has("fail") && wrong.has("error"));
  for (const name of ["pass", "no_verdict", "not_asked"]) assert.ok(!wrong.has(name));
});

test("run, suite and model narrow each other", () => {
  const page = look({ run: "0", suite: "=tool_use", label: "ollama_openai:qwen3:8b" });
  assert.equal(page.matching.length, 15);
  assert.deepEqual(
    page.shownTargets().map((target) => target.label),
    ["ollama_openai:qwen3:8b"],
  );
  assert.equal(look({ suite: "=nothing" }).matching.length, 0);
});

test("words are looked for in prompts, models, reasons and tools, whatever their case", () => {
  assert.equal(look({ words: "use_nvidia" }).matching.length, 6);
  assert.ok(look({ words: "timeout" }).matching.length > 0);
  const found = look({ words: "nowhere", foundInAnswers: new Set([3]) });
  assert.deepEqual(found.matching, [3]);
});

test("the figures of a suite are those of the report", () => {
  const page = look({ suite: "=core" });
  const { figures } = page.report.targets[0];
  const core = figures.suites.find((suite) => suite.suite === "core");
  assert.deepEqual(page.shownCells(figures), core.cells);
  const rows = page.latencyRows();
  assert.equal(rows[0].cells.p50_ms, page.shownCells(rows[0].figures).p50_ms);
});

test("of a whole model every figure is the report's", () => {
  const page = look({});
  for (const row of page.latencyRows()) {
    for (const name of ["n_timed", "p50_ms", "p95_ms", "p99_ms", "mean_ms", "n_timeouts"]) {
      assert.equal(row.cells[name], row.figures.cells[name], name);
    }
  }
  for (const row of page.firstTokenRows(page.matching.filter(page.isAnswered))) {
    const target = page.report.targets.find(({ label }) => label === row.label);
    assert.equal(row.ttft, target.figures.cells.ttft_p50_ms);
    assert.equal(row.e2e, target.figures.cells.p50_ms);
  }
});

for (const picked of [{ outcome: "pass" }, { words: "core/" }]) {
  test(`of calls picked by ${Object.keys(picked)} no figure is told, only how many they are`, () => {
    const page = look(picked);
    assert.ok(page.isPicked());
    for (const row of page.latencyRows()) {
      for (const name of ["p50_ms", "p95_ms", "p99_ms", "mean_ms"]) {
        assert.deepEqual(row.cells[name], { value: null, text: "–" }, name);
      }
      const n = row.figures.cells.n_timed.value;
      assert.equal(row.cells.n_timed.text, n ? `${row.calls.length + row.timeouts} of ${n}` : "0");
      assert.ok(!/median|p95/.test(page.latencyInWords(row)));
    }
    for (const row of page.firstTokenRows(page.matching.filter(page.isAnswered))) {
      assert.deepEqual([row.ttft.value, row.e2e.value], [null, null]);
      assert.match(row.n.text, /^\d+ of \d+$/);
    }
  });
}

test("a count in words", () => {
  const page = look({});
  assert.deepEqual(page.countOfPicked(3, { value: 1200 }), { value: 3, text: "3 of 1,200" });
  assert.deepEqual(page.countOfPicked(3, null), { value: 3, text: "3" });
  assert.equal(page.countInWords({ text: "1" }, "call"), "1 call");
  assert.equal(page.countInWords({ text: "1 of 3" }, "call"), "1 of 3 calls");
});

for (const changes of [{}, { suite: "=core" }, { outcome: "fail" }, { words: "qwen" }, { label: "nobody" }]) {
  test(`everything is drawn for ${JSON.stringify(changes)}`, () => {
    const page = look(changes);
    page.drawHeader();
    page.drawLimits();
    page.drawConditions();
    page.setUpCalls();
    for (const draw of ["Answer", "Rates", "Latency", "FirstToken", "Capacity", "Matrix", "Models", "Calls"])
      page[`draw${draw}`]();
    assert.equal(page.rows("models-table").length, page.shownTargets().length);
    assert.equal(page.rows("latency-table").length, page.shownTargets().length);
    assert.match(page.textOf("findings"), /Who may be a subagent\?/);
    assert.ok(page.rows("calls-window").length > 0);
  });
}

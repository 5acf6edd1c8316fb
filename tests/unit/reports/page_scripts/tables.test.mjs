// Sorting, columns and cells.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./page.mjs";

const page = load([
  "sortRows",
  "nextOrder",
  "figureColumn",
  "sortableTable",
  "cellOutcome",
  "cellWords",
  "telling",
  "MAX_PROMPTS",
]);
const value = (row) => row.value;
const order = (rows, descending) => page.sortRows(rows, value, descending).map((row) => row.name);

test("what is absent goes last either way, and equal rows stay as they were", () => {
  const rows = [
    { name: "none", value: null },
    { name: "b", value: 2 },
    { name: "a", value: 1 },
    { name: "c", value: 2 },
  ];
  assert.deepEqual(order(rows, false), ["a", "b", "c", "none"]);
  assert.deepEqual(order(rows, true), ["b", "c", "a", "none"]);
});

test("names are sorted as a person counts", () => {
  const rows = ["qwen3:14b", "qwen3:8b", ""].map((name) => ({ name, value: name }));
  assert.deepEqual(order(rows, false), ["qwen3:8b", "qwen3:14b", ""]);
});

test("a first click begins with the best, a second one turns it", () => {
  const best = page.nextOrder({}, { name: "rate", bestFirst: true });
  assert.deepEqual(best, { column: "rate", descending: true });
  assert.deepEqual(page.nextOrder(best, { name: "rate", bestFirst: true }), { column: "rate", descending: false });
  assert.deepEqual(page.nextOrder(best, { name: "p50" }), { column: "p50", descending: false });
});

test("a column shows a figure's text and sorts by its value; without one, a dash", () => {
  const column = page.figureColumn({ figure: "p50_ms", label: "p50", title: "", bestFirst: false }, (row) => row.cells);
  const known = { cells: { p50_ms: { value: 204.4, text: "204 ms" } } };
  assert.deepEqual([column.value(known), column.cell(known), column.title], [204.4, "204 ms", null]);
  assert.deepEqual([column.value({ cells: null }), column.cell({ cells: {} })], [null, "–"]);
});

test("a table has a heading a column and a row a row", () => {
  const columns = [
    { name: "model", label: "Model", value: (row) => row.name },
    { name: "n", label: "n", value, cell: (row) => `n=${row.value}` },
  ];
  const table = page.sortableTable("Models", columns, [
    { name: "b", value: 1 },
    { name: "a", value: 2 },
  ]);
  const texts = () => table.all("tr").map((row) => row.children.map((cell) => cell.textContent));
  assert.deepEqual(texts(), [
    ["Model", "n"],
    ["b", "n=1"],
    ["a", "n=2"],
  ]);
});

test("a mark of the matrix stands for all calls behind it", () => {
  assert.equal(page.cellOutcome({ pass: 3 }), "pass");
  assert.equal(page.cellOutcome({ pass: 2, fail: 1 }), "mixed");
  assert.equal(page.cellOutcome({ fail: 1, error: 2, not_asked: 9 }), "error");
  assert.equal(page.cellOutcome({ not_asked: 2 }), "not_asked");
  assert.equal(page.cellWords({ pass: 2, fail: 1 }), "2 × pass, 1 × fail");
});

test("of too many prompts those that somebody failed come first", () => {
  const prompts = Array.from({ length: page.MAX_PROMPTS + 50 }, (_, n) => n);
  const cells = new Map(prompts.map((n) => [`0,${n}`, n < page.MAX_PROMPTS ? { pass: 1 } : { fail: 1 }]));
  const kept = page.telling(prompts, [{ number: 0 }], cells);
  assert.equal(kept.length, page.MAX_PROMPTS);
  assert.ok(prompts.slice(page.MAX_PROMPTS).every((prompt) => kept.includes(prompt)));
  assert.deepEqual(
    kept,
    [...kept].sort((a, b) => a - b),
  );
});

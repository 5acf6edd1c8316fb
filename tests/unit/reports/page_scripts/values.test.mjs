// Single values, as every other report writes them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { formats, load } from "./page.mjs";

const page = load([
  "milliseconds",
  "percent",
  "dollars",
  "count",
  "rounded",
  "plural",
  "decimals",
  "whyWords",
  "visible",
  "shortened",
  "foreignText",
]);

for (const [name, cases] of Object.entries(formats)) {
  test(`${name} writes a value as Python does`, () => {
    for (const [value, text] of cases) assert.equal(page[name](value), text, `${name} of ${value}`);
  });
}

test("what is absent is a dash", () => {
  for (const show of ["milliseconds", "percent", "dollars", "count"]) assert.equal(page[show](null), "–");
  assert.equal(page.decimals(undefined, 1), "–");
});

test("one is told apart from many", () => {
  assert.deepEqual(
    [page.plural(1, "call"), page.plural(1200, "call"), page.plural(2, "retry", "retries")],
    ["1 call", "1,200 calls", "2 retries"],
  );
});

test("a code reads as words, and what follows it stays", () => {
  assert.equal(page.whyWords("not_exact: got_this"), "not exact: got_this");
  assert.equal(page.whyWords("two words: kept_so"), "two words: kept_so");
});

test("what is not seen is shown by its number", () => {
  assert.equal(page.visible("user\u202etxt\nnext\u200b"), "user⟦U+202E⟧txt next⟦U+200B⟧");
  assert.equal(page.foreignText("a\u0000\u0000\u0000b").textContent, "aU+0000 ×3b");
  assert.equal(page.foreignText("line\r\nline").textContent, "line\nline");
});

test("a long name keeps both ends", () => {
  assert.equal(page.shortened("short", 10), "short");
  const name = page.shortened("hf.co/unsloth/Qwen3-14B-GGUF:Q4_K_M", 20);
  assert.equal(name.length, 20);
  assert.ok(name.startsWith("hf.co/unslot") && name.endsWith("Q4_K_M"));
});

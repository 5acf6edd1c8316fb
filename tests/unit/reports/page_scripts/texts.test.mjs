// The packed texts, and the search in them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./page.mjs";

const page = load([
  "calls",
  "callDetail",
  "promptDetail",
  "blockOf",
  "wholeText",
  "missingCharacters",
  "callsSaying",
  "saysAnywhere",
  "report",
  "callKey",
  "callWithKey",
]);

test("every call has its texts, and every prompt", async () => {
  for (let call = 0; call < page.calls.n; call++) {
    const detail = await page.callDetail(call);
    assert.ok("answer" in detail || "failure" in detail, `call ${call}`);
    assert.ok((await page.promptDetail(call)).prompt);
  }
});

test("a text is in the block that begins last before it", () => {
  const { starts } = page.report.texts;
  for (const [number, start] of starts.entries()) assert.equal(page.blockOf(start), number);
});

test("a text that was cut tells how much is missing", () => {
  assert.equal(page.wholeText({ t: "abc", n: 10 }), "abc");
  assert.equal(page.missingCharacters({ t: "abc", n: 10 }), 7);
  assert.deepEqual([page.wholeText(undefined), page.missingCharacters("abc")], ["", 0]);
});

test("words are looked for in answers, errors, conversations and calls", () => {
  const details = [
    { answer: "Permission DENIED" },
    { error: { t: "permission denied", n: 99 } },
    { calls: [["run", '{"why": "permission denied"}']] },
    { transcript: [["", [], ["permission denied"]]] },
  ];
  assert.ok(details.every((detail) => page.saysAnywhere(detail, "permission denied")));
  assert.ok(!page.saysAnywhere({ answer: "allowed" }, "permission denied"));
});

test("a search that another one has overtaken gives up", async () => {
  assert.equal(await page.callsSaying("e", () => false), null);
  assert.ok((await page.callsSaying("e", () => true)).size > 0);
});

test("the address of a call leads back to it", () => {
  for (let call = 0; call < page.calls.n; call++)
    assert.equal(page.callKey(page.callWithKey(page.callKey(call))), page.callKey(call));
  assert.equal(page.callWithKey("another/run"), undefined);
});

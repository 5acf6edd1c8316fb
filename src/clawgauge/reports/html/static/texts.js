// The long texts: packed in blocks, each unpacked when someone first looks into it.

const packedBlocks = document.getElementsByClassName("packed");
const unpackedBlocks = new Map();

async function unpack(number) {
  const bytes = Uint8Array.from(atob(packedBlocks[number].textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function blockOf(text) {
  const starts = report.texts.starts;
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= text) low = middle;
    else high = middle - 1;
  }
  return low;
}

async function textNumbered(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("This browser is too old to unpack the texts in this file.");
  }
  const number = blockOf(text);
  if (!unpackedBlocks.has(number)) unpackedBlocks.set(number, unpack(number));
  return (await unpackedBlocks.get(number))[text - report.texts.starts[number]];
}

function callDetail(call) {
  return textNumbered(report.texts.firstDetail + call);
}

async function promptDetail(call) {
  const number = callRun(call).promptTexts[calls.prompt[call]];
  return number === undefined ? null : textNumbered(number);
}

// A text that was cut is an object with its beginning and its whole length.
function wholeText(text) {
  return text && typeof text === "object" ? text.t : text || "";
}

function missingCharacters(text) {
  return text && typeof text === "object" ? text.n - text.t.length : 0;
}

// Calls whose answer, reasoning, error or conversation holds the words; null where another search has begun since.
async function callsSaying(words, isCurrent) {
  const found = new Set();
  for (let call = 0; call < calls.n; call++) {
    const detail = await callDetail(call);
    if (call % 256 === 0 && !isCurrent()) return null;
    if (saysAnywhere(detail, words)) found.add(call);
  }
  return found;
}

function saysAnywhere(detail, words) {
  const parts = [detail.answer, detail.reasoning, detail.error];
  for (const [text, , answers] of detail.transcript || []) parts.push(text, ...answers);
  for (const [name, given] of detail.calls || []) parts.push(name, given);
  return parts.some((part) => wholeText(part).toLowerCase().includes(words));
}

// Words of models and servers, made readable: what would reorder, hide or steer is shown by its number instead.

// Controls but tab and line feed; soft hyphen; marks that reorder or have no width; separators; halves of surrogate
// pairs; the tag characters in which text can be smuggled past a reader.
const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e" +
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb" +
    "\\u{e0000}-\\u{e0fff}\\ud800-\\udfff]",
  "gu",
);
const MAX_MARKS = 2000;

function codePoint(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

// For one line: names, table cells, chart labels.
function visible(text) {
  return String(text)
    .replace(/\r\n|[\r\n\t]/g, " ")
    .replace(UNSEEN, (found) => `⟦${codePoint(found)}⟧`);
}

// For a block of text: the same, with each unseen character set apart from the words around it.
function foreignText(text) {
  const fragment = document.createDocumentFragment();
  const whole = String(text).replace(/\r\n/g, "\n");
  let from = 0;
  let marks = 0;
  for (const run of whole.matchAll(new RegExp(`(${UNSEEN.source})\\1*`, "gu"))) {
    if (marks++ === MAX_MARKS) break;
    fragment.append(whole.slice(from, run.index));
    const times = run[0].length / run[1].length;
    const name = codePoint(run[1]) + (times > 1 ? ` ×${times}` : "");
    fragment.append(html("span", { class: "unseen", title: "a character that cannot be seen" }, name));
    from = run.index + run[0].length;
  }
  fragment.append(whole.slice(from).replace(UNSEEN, (found) => `⟦${codePoint(found)}⟧`));
  return fragment;
}

function shortened(text, limit) {
  if (text.length <= limit) return text;
  const head = Math.max(1, Math.ceil(limit * 0.6));
  return `${text.slice(0, head)}…${text.slice(text.length - Math.max(1, limit - head - 1))}`;
}

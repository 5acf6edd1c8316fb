// How a call ended: a word, a sign and a colour each, so that no two differ by colour alone.

const OUTCOMES = {
  pass: { word: "pass", sign: "✓", meaning: "the answer met its check" },
  fail: { word: "fail", sign: "✗", meaning: "the answer broke its check" },
  no_verdict: { word: "no verdict", sign: "○", meaning: "answered, nothing to check" },
  no_answer: { word: "no answer", sign: "∅", meaning: "reached, but nothing came" },
  error: { word: "error", sign: "!", meaning: "the call failed" },
  rate_limited: { word: "rate limited", sign: "…", meaning: "the server asked to wait, to the end" },
  auth_error: { word: "auth error", sign: "⊘", meaning: "the key was refused or missing" },
  unavailable: { word: "unavailable", sign: "–", meaning: "the model or server was not there" },
  not_asked: { word: "not asked", sign: "·", meaning: "never sent, so it tells nothing of the model" },
  mixed: { word: "mixed", sign: "◐", meaning: "some calls passed, some did not" },
};

function outcomeName(call) {
  return report.outcomes[calls.outcome[call]];
}

function outcomeSign(name) {
  return html("span", { class: `sign is-${name}`, "aria-hidden": "true" }, OUTCOMES[name].sign);
}

function outcomeBadge(name) {
  return html("span", { class: `badge is-${name}` }, outcomeSign(name), OUTCOMES[name].word);
}

function isAnswered(call) {
  return calls.outcome[call] <= 2;
}

// The parts of an opened call, each left out where it has nothing to say.

function callParts(call, detail, prompt) {
  const has = (name) => (detail[name] || []).length;
  return [
    verdictPart(call, detail),
    textPart("Answer", detail.answer, { open: true, empty: "The model wrote no text." }, truncation(detail)),
    has("transcript") ? part("Conversation", transcript(detail)) : null,
    has("calls") && !has("transcript") ? part("Tool calls", invocations(detail.calls)) : null,
    textPart("Reasoning", detail.reasoning, {}),
    textPart("Prompt", joinTexts(detail.prefix, prompt.prompt), {
      open: true,
      empty: wholeText(prompt.messages)
        ? "The model goes on from the messages before."
        : "The prompt’s text was not recorded with this run.",
    }),
    textPart("Messages before it", prompt.messages, {}),
    textPart("System prompt", prompt.system, {}),
    textPart("Check", prompt.validator, {}),
    textPart("Tools offered", prompt.tools, {}),
    textPart("World at the start", prompt.world, {}),
    textPart("What the check read", detail.parsed, {}),
    part("Timing", timings(call, detail)),
    has("attempts") ? part("Attempts", attempts(detail.attempts)) : null,
  ];
}

function joinTexts(prefix, text) {
  return prefix ? `${wholeText(prefix)}\n${wholeText(text)}` : text;
}

function part(title, ...content) {
  return html("section", { class: "part" }, html("h3", {}, title), content);
}

// Text that is not ours. Closed where it is seldom wanted; a text that is not there has no heading.
function textPart(title, text, { open = false, empty = "" }, note = null) {
  const whole = wholeText(text);
  if (!whole && !empty) return null;
  const cut = missingCharacters(text);
  const content = whole
    ? [
        html("pre", { class: "foreign", tabindex: 0, "aria-label": title }, foreignText(whole)),
        note,
        cut ? html("p", { class: "soft" }, `… ${plural(cut, "more character")} in results.jsonl`) : null,
      ]
    : [html("p", { class: "soft" }, empty)];
  return html("details", { class: "part", open }, html("summary", {}, html("h3", {}, title)), content);
}

function truncation(detail) {
  if (!detail.answerBytes) return null;
  const size = `The answer was ${count(detail.answerBytes)} bytes long`;
  return html("p", { class: "soft" }, `${size}; its beginning was recorded, the whole was judged.`);
}

function verdictPart(call, detail) {
  const name = outcomeName(call);
  const lines = [];
  if (wholeText(detail.violation)) lines.push(["Broke", code(wholeText(detail.violation))]);
  if (detail.failure) lines.push(["Failure", code(detail.failure)]);
  if (wholeText(detail.error))
    lines.push(["In its words", html("pre", { class: "foreign inline" }, foreignText(wholeText(detail.error)))]);
  if ((detail.expectedTools || []).length) {
    lines.push(["Expected tools", detail.expectedTools.map((tool) => visible(wholeText(tool))).join(", ")]);
    lines.push([
      "Tool used",
      detail.toolUse ? "yes" : "no",
      detail.channel && detail.channel !== "none" ? ` (${visible(detail.channel)})` : "",
    ]);
  }
  if (detail.finish && detail.finish !== "stop") lines.push(["Ended by", visible(detail.finish)]);
  if (detail.reported) lines.push(["Answered as", visible(detail.reported)]);
  if (detail.repaired) lines.push(["Repaired", "broken Unicode in the answer was replaced"]);
  for (const warning of detail.warnings || []) lines.push(["Warning", visible(wholeText(warning))]);
  for (const line of detail.agent || []) lines.push(["Inside the program", visible(wholeText(line))]);
  return html(
    "section",
    { class: `part verdict is-${name}` },
    html("h3", {}, "Verdict"),
    html("p", { class: "verdict-line" }, outcomeSign(name), ` ${OUTCOMES[name].word}: ${OUTCOMES[name].meaning}`),
    factList(lines),
  );
}

function code(text) {
  return html("code", {}, visible(text));
}

function factList(lines) {
  if (!lines.length) return null;
  return html(
    "dl",
    { class: "facts" },
    lines.map(([name, ...value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value))),
  );
}

function timings(call, detail) {
  const lines = [];
  const add = (name, value, show) => {
    if (value !== null && value !== undefined) lines.push([name, show(value)]);
  };
  add("First token", calls.ttft[call], milliseconds);
  add("First word of the answer", calls.ttfa[call], milliseconds);
  lines.push(["Whole answer", milliseconds(calls.e2e[call])]);
  if (detail.total > calls.e2e[call] + 1) add("Waited in all", detail.total, milliseconds);
  add("Connecting (apart)", detail.connect, milliseconds);
  add("Speed", calls.tps[call], (tps) => `${decimals(tps, 1)} tokens/s`);
  add("Tokens", tokensInWords(call, detail), String);
  add("Cold call", calls.cold[call], (cold) => (cold ? "yes" : "no"));
  add("Turns", detail.turns, String);
  add("The CLI’s own share", detail.overhead, milliseconds);
  add("This program late by at most", detail.lag, milliseconds);
  const source = detail.costSource ? ` (${visible(detail.costSource)})` : "";
  add("Cost", calls.cost[call], (cost) => `${dollars(cost)}${source}`);
  return [timeBar(call), factList(lines)];
}

function tokensInWords(call, detail) {
  const tokensIn = calls.tokensIn[call];
  const tokensOut = calls.tokensOut[call];
  if (tokensIn === null && tokensOut === null) return null;
  const cached = detail.cached ? ` (${count(detail.cached)} from a cache)` : "";
  const reasoning = detail.reasoningTokens ? `, ${count(detail.reasoningTokens)} of them reasoning` : "";
  return `${count(tokensIn)} in${cached}, ${count(tokensOut)} out${reasoning}`;
}

// Waiting, thinking, writing: the three stretches of a streamed answer.
function timeBar(call) {
  const whole = calls.e2e[call];
  const first = calls.ttft[call];
  if (!whole || first === null) return null;
  const answer = Math.max(first, calls.ttfa[call] ?? first);
  const marks = [0, first, answer, whole];
  const names = ["until the first token", "until the first word of the answer", "writing"];
  const words = names.map((name, n) => `${name} ${milliseconds(marks[n + 1] - marks[n])}`).join(", ");
  return svg(
    "svg",
    {
      class: "time-bar",
      viewBox: "0 0 1000 14",
      width: "100%",
      height: 14,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": words,
    },
    svg("title", {}, words),
    names.map((_, n) =>
      svg("rect", {
        class: `stretch-${n}`,
        x: (marks[n] / whole) * 1000,
        y: 0,
        height: 14,
        width: Math.max(0, ((marks[n + 1] - marks[n]) / whole) * 1000),
      }),
    ),
  );
}

function attempts(tries) {
  const rows = tries.map(([status, failure, took, waited, http, retryAfter, error], n) =>
    html(
      "tr",
      {},
      html("th", { scope: "row" }, String(n + 1)),
      html("td", {}, visible(failure || status)),
      html("td", { class: "number" }, http ? String(http) : ABSENT),
      html("td", { class: "number" }, milliseconds(took)),
      html("td", { class: "number" }, waited ? milliseconds(waited) : ABSENT),
      html("td", {}, [retryAfter === null ? "" : `server asked for ${retryAfter} s. `, visible(wholeText(error))]),
    ),
  );
  return html(
    "div",
    { class: "scrolls" },
    html(
      "table",
      { class: "figures plain" },
      html(
        "thead",
        {},
        html(
          "tr",
          {},
          ["Try", "Ended", "HTTP", "Took", "Then waited", "Words"].map((label) => html("th", { scope: "col" }, label)),
        ),
      ),
      html("tbody", {}, rows),
    ),
  );
}

function invocations(toolCalls) {
  return html(
    "ol",
    { class: "invocations" },
    toolCalls.map(([name, toolArguments, channel, valid]) =>
      html(
        "li",
        {},
        html("code", { class: "strong" }, visible(wholeText(name))),
        html("span", { class: "soft" }, ` ${visible(channel)}${valid ? "" : ", malformed"}`),
        wholeText(toolArguments)
          ? html("pre", { class: "foreign inline" }, foreignText(wholeText(toolArguments)))
          : null,
      ),
    ),
  );
}

function worldAnswer(text) {
  return html(
    "pre",
    { class: "foreign inline world", "aria-label": "the world’s answer" },
    text ? foreignText(text) : html("span", { class: "soft" }, "(nothing)"),
  );
}

function transcript(detail) {
  const turns = detail.transcript.map(([text, toolCalls, answers, tokens, took], n) =>
    html(
      "li",
      { class: "turn" },
      html(
        "p",
        { class: "turn-head" },
        `Turn ${n + 1}`,
        html("span", { class: "soft" }, [
          took === null ? "" : ` · ${milliseconds(took)}`,
          tokens === null ? "" : ` · ${plural(tokens, "token")}`,
        ]),
      ),
      wholeText(text) ? html("pre", { class: "foreign inline" }, foreignText(wholeText(text))) : null,
      toolCalls.flatMap((toolCall, place) => [
        invocations([toolCall]),
        answers[place] === undefined ? null : worldAnswer(wholeText(answers[place])),
      ]),
    ),
  );
  return [
    html("ol", { class: "turns" }, turns),
    detail.transcriptCut
      ? html("p", { class: "soft" }, "The conversation was longer; its record was cut to fit.")
      : null,
  ];
}

// The dialog that shows one call: opening by click, key or address, and going on to the next.

const dialog = { element: byId("call"), shown: null };

function setUpDialog() {
  byId("call-close").addEventListener("click", () => dialog.element.close());
  byId("call-previous").addEventListener("click", () => stepCall(-1));
  byId("call-next").addEventListener("click", () => stepCall(1));
  dialog.element.addEventListener("keydown", (event) => {
    const isInText = event.target.closest("pre, input") || event.altKey || event.ctrlKey || event.metaKey;
    if (isInText || (event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
    event.preventDefault();
    stepCall(event.key === "ArrowLeft" ? -1 : 1);
  });
  dialog.element.addEventListener("click", (event) => {
    if (event.target === dialog.element) dialog.element.close();
  });
  dialog.element.addEventListener("close", () => {
    dialog.shown = null;
    if (addressed("call") !== null) writeAddress();
    // The row it was opened from may have been drawn anew meanwhile, as after a scroll.
    if (document.activeElement !== document.body) return;
    rowAt(list.current)?.querySelector("a").focus({ preventScroll: true });
  });
  addEventListener("hashchange", openLinkedCall);
  openLinkedCall();
}

function openLinkedCall() {
  const key = addressed("call");
  if (key === null) return;
  const call = callWithKey(key);
  if (call === undefined) showAbsentCall(key);
  else if (call !== dialog.shown) showCall(call);
}

function openCall(call) {
  writeAddress(call);
  showCall(call);
}

function stepCall(step) {
  const place = list.sorted.indexOf(dialog.shown) + step;
  if (dialog.shown === null || !(place in list.sorted)) return;
  list.current = place;
  openCall(list.sorted[place]);
}

function showDialog() {
  byId("hint").hidden = true;
  if (!dialog.element.open) dialog.element.showModal();
  byId("call-body").scrollTop = 0;
  byId("call-title").focus();
}

function showAbsentCall(key) {
  dialog.shown = null;
  byId("call-title").replaceChildren("This call is not in this file");
  byId("call-where").textContent = visible(key);
  fill(
    "call-body",
    html("p", {}, "The link names a call of another run, or one that was left out to keep the file small."),
  );
  showDialog();
}

async function showCall(call) {
  dialog.shown = call;
  const place = list.sorted.indexOf(call);
  byId("call-previous").disabled = place <= 0;
  byId("call-next").disabled = place < 0 || place === list.sorted.length - 1;
  byId("call-title").replaceChildren(outcomeBadge(outcomeName(call)), ` ${visible(promptTitle(calls.prompt[call]))}`);
  byId("call-where").textContent = [
    visible(callTarget(call).label),
    calls.repeat[call] ? `repeat ${calls.repeat[call]}` : "",
    visible(callRun(call).id),
    moment(calls.started[call]),
  ]
    .filter(Boolean)
    .join(" · ");
  fill("call-body", html("p", { class: "soft" }, "…"));
  showDialog();
  try {
    const [detail, prompt] = await Promise.all([callDetail(call), promptDetail(call)]);
    if (dialog.shown === call) fill("call-body", callParts(call, detail, prompt || {}));
  } catch (error) {
    fill("call-body", html("p", { class: "notice" }, `The texts could not be unpacked. ${error.message}`));
  }
}

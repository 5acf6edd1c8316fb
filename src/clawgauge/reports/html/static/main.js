// The order of things: header and answer first, then what is in sight, then the rest.

function drawAll() {
  drawAnswer();
  drawModels();
  drawRates();
  drawLatency();
  drawFirstToken();
  drawMatrix();
  drawCalls();
}

function setUpPrinting() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("main details:not([open])")];
    for (const details of closed) details.open = true;
    printCalls();
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
    drawRowsInSight();
  });
}

// Charts are drawn to the width they have, so that their words stay readable on a phone.
function followWidth() {
  let width = document.documentElement.clientWidth;
  let pause = 0;
  addEventListener("resize", () => {
    if (document.documentElement.clientWidth === width) return;
    clearTimeout(pause);
    pause = setTimeout(() => {
      width = document.documentElement.clientWidth;
      drawRates();
      drawLatency();
      drawFirstToken();
      drawRowsInSight();
    }, 100);
  });
}

setUpTheme();
drawHeader();
drawLimits();
drawConditions();
setUpFilters(drawAll);
setUpCalls();
byId("everything").hidden = calls.n === 0;
byId("filters").hidden = calls.n === 0;
drawAll();
setUpDialog();
setUpPrinting();
followWidth();
document.documentElement.dataset.ready = "true";

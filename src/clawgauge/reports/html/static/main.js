// The order of things: header and answer first, then what is in sight, then the rest.

function drawAll() {
  drawCharts();
  drawModels();
  drawCalls();
}

// What has a width of its own.
function drawCharts() {
  drawAnswer();
  drawRates();
  drawLatency();
  drawFirstToken();
  drawCapacity();
  drawMatrix();
}

function setUpPrinting() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("main details:not([open])")];
    isPrinting = true;
    drawCharts();
    closed = [...document.querySelectorAll("main details:not([open])")];
    for (const details of closed) details.open = true;
    printCalls();
  });
  addEventListener("afterprint", () => {
    isPrinting = false;
    for (const details of closed) details.open = false;
    drawCharts();
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
      drawCharts();
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

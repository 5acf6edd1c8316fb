// Elements. The only place that makes any: text goes in as text nodes, so nothing a model wrote can become markup.

// What is for those without scripts is hidden by it, and what needs them shown.
document.documentElement.dataset.scripted = "true";

const SVG_SPACE = "http://www.w3.org/2000/svg";

function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

function html(name, attributes, ...children) {
  return fillElement(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return fillElement(document.createElementNS(SVG_SPACE, name), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

function fill(id, ...children) {
  byId(id).replaceChildren(...children.flat(Infinity).filter(Boolean));
}

// Charts are drawn to the width they have: that of the page, or of paper.
const PAPER_WIDTH = 680;
let isPrinting = false;

function chartWidth(id) {
  return isPrinting ? PAPER_WIDTH : byId(id).clientWidth || 900;
}

// A chart a screen reader meets as one image, with what it shows in words.
function chartFrame(width, height, title, description) {
  const serial = (chartFrame.serial = (chartFrame.serial || 0) + 1);
  return svg(
    "svg",
    {
      role: "img",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      "aria-labelledby": `chart-title-${serial} chart-description-${serial}`,
    },
    svg("title", { id: `chart-title-${serial}` }, title),
    svg("desc", { id: `chart-description-${serial}` }, description),
  );
}

// Buttons of which one is pressed.
function choiceButtons(id, options, chosen, onChoose) {
  fill(
    id,
    options.map(([value, label]) =>
      html(
        "button",
        {
          type: "button",
          "aria-pressed": value === chosen ? "true" : "false",
          click: () => onChoose(value),
        },
        label,
      ),
    ),
  );
}

// The page's scripts without a browser: a document of plain objects, and whatever a test wants of the scripts.

import { readFileSync } from "node:fs";

// Written by the Python test: the scripts but for the last, the data of a report, its packed texts.
const given = JSON.parse(readFileSync(process.env.CLAWGAUGE_PAGE, "utf8"));

export const formats = given.formats;

class PlainElement {
  constructor(name) {
    this.name = name;
    this.attributes = {};
    this.children = [];
    this.dataset = {};
    this.style = {};
    this.listeners = {};
    this.classes = new Set();
    this.classList = { toggle: (word, on) => (on ? this.classes.add(word) : this.classes.delete(word)) };
    this.clientWidth = 900;
    this.clientHeight = 640;
    this.offsetHeight = 30;
    this.scrollTop = 0;
  }

  get textContent() {
    return this.children.map((child) => (child instanceof PlainElement ? child.textContent : String(child))).join("");
  }

  set textContent(text) {
    this.children = [text];
  }

  append(...children) {
    this.children.push(...children);
  }

  replaceChildren(...children) {
    this.children = children;
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }

  contains(element) {
    return element === this || this.children.some((child) => child instanceof PlainElement && child.contains(element));
  }

  focus() {}

  querySelector() {
    return new PlainElement("found");
  }

  // Every element of that name within, in the order of the document.
  all(name) {
    const inside = this.children.filter((child) => child instanceof PlainElement);
    return inside.flatMap((child) => [...(child.name === name ? [child] : []), ...child.all(name)]);
  }
}

class PlainDocument {
  constructor(data, packed) {
    this.documentElement = new PlainElement("html");
    this.activeElement = null;
    this.elements = new Map();
    this.packed = packed.map((block) => ({ textContent: block }));
    this.getElementById("data").textContent = JSON.stringify(data);
  }

  getElementById(id) {
    if (!this.elements.has(id)) this.elements.set(id, new PlainElement(id));
    return this.elements.get(id);
  }

  getElementsByClassName() {
    return this.packed;
  }

  createElement(name) {
    return new PlainElement(name);
  }

  createElementNS(_, name) {
    return new PlainElement(name);
  }

  createDocumentFragment() {
    return new PlainElement("fragment");
  }
}

// A freshly loaded page: `names` are taken out of its scripts, `change` may alter the report's data before.
export function load(names, change = (data) => data) {
  const document = new PlainDocument(change(structuredClone(given.data)), given.blocks);
  const browser = {
    document,
    location: { hash: "", href: "file:///report.html" },
    history: { replaceState: () => {} },
    matchMedia: () => ({ matches: false }),
    requestAnimationFrame: () => {},
    addEventListener: () => {},
    innerWidth: 1280,
    innerHeight: 900,
  };
  const taken = names.map((name) => `get ${name}() { return ${name}; }`).join(", ");
  const body = `"use strict";\n${given.script}\nreturn { ${taken} };`;
  const page = new Function(...Object.keys(browser), body)(...Object.values(browser));
  const rows = (id) =>
    document
      .getElementById(id)
      .all("tr")
      .slice(1)
      .map((row) => row.children.map((cell) => cell.textContent));
  return Object.assign(page, {
    rows,
    textOf: (id) => document.getElementById(id).textContent,
    element: (id) => document.getElementById(id),
  });
}

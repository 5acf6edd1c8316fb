"use strict";
// The list of runs: shows those that hold a word, and puts them in the order of a column. Without scripts the list is
// as complete, the newest first.
(() => {
  const table = document.querySelector("table.runs");
  if (!table) return;
  const body = table.tBodies[0];
  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");

  const showThoseWith = (words) => {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of body.rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => content.includes(word));
      if (!row.hidden) count += 1;
    }
    shown.textContent = wanted.length ? `${count} of ${body.rows.length} runs` : "";
  };

  const keyOf = (row, column) => row.cells[column]?.dataset.sort ?? "";
  const compare = (one, other) => {
    // What has no figure comes last in the order that shows the largest first.
    if (one === "" || other === "") return (one !== "") - (other !== "");
    const difference = Number(one) - Number(other);
    return Number.isNaN(difference) ? one.localeCompare(other) : difference;
  };

  const sortBy = (heading, column) => {
    const isDescending = heading.getAttribute("aria-sort") !== "descending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    const rows = [...body.rows];
    rows.sort((one, other) => compare(keyOf(one, column), keyOf(other, column)) * (isDescending ? -1 : 1));
    body.replaceChildren(...rows);
  };

  for (const heading of table.tHead.rows[0].cells) {
    const column = heading.cellIndex;
    if (!["run", "models", "asked", "passed", "tier"].includes(heading.textContent)) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = heading.textContent;
    button.addEventListener("click", () => sortBy(heading, column));
    heading.replaceChildren(button);
  }
  const field = filter.querySelector("input");
  field.addEventListener("input", () => showThoseWith(field.value));
  field.addEventListener("keydown", (event) => {
    // Enter would compare two runs.
    if (event.key === "Enter") event.preventDefault();
  });
  filter.hidden = false;
})();

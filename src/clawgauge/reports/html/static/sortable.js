// Tables whose headings sort. What is absent goes last, whichever way the rest is sorted.

function isAbsent(value) {
  return value === null || value === undefined || value === "";
}

function compareValues(a, b) {
  if (isAbsent(a) || isAbsent(b)) return isAbsent(a) - isAbsent(b);
  return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
}

// `order` is {column, descending}; equal rows stay as they were.
function sortRows(rows, valueOf, descending) {
  return rows
    .map((row, place) => ({ row, place, value: valueOf(row) }))
    .sort((a, b) => {
      const order = compareValues(a.value, b.value);
      const turned = descending && !isAbsent(a.value) && !isAbsent(b.value) ? -order : order;
      return turned || a.place - b.place;
    })
    .map(({ row }) => row);
}

function sortHeading(column, order, onSort) {
  const isSorted = order.column === column.name;
  const direction = order.descending ? "descending" : "ascending";
  const arrow = order.descending ? "▼" : "▲";
  return html(
    "th",
    { scope: "col", class: column.class, "aria-sort": isSorted ? direction : null },
    html(
      "button",
      { type: "button", class: "sort", title: column.title, click: () => onSort(column) },
      column.label,
      html("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? arrow : ""),
    ),
  );
}

function nextOrder(order, column) {
  if (order.column !== column.name) return { column: column.name, descending: Boolean(column.bestFirst) };
  return { column: column.name, descending: !order.descending };
}

// A table that fits the page whole. A column has `value` (to sort by) and `cell` (to show); the first is a heading.
function sortableTable(caption, columns, rows, order = {}) {
  const table = html("table", { class: "figures" }, html("caption", { class: "hidden" }, caption));
  const head = html("thead");
  const body = html("tbody");
  table.append(head, body);
  const draw = () => {
    head.replaceChildren(
      html(
        "tr",
        {},
        columns.map((column) => sortHeading(column, order, sortBy)),
      ),
    );
    const sorting = columns.find((column) => column.name === order.column);
    const sorted = sorting ? sortRows(rows, sorting.value, order.descending) : rows;
    body.replaceChildren(
      ...sorted.map((row) =>
        html(
          "tr",
          {},
          columns.map((column, place) =>
            html(
              place ? "td" : "th",
              { class: column.class, scope: place ? null : "row" },
              (column.cell || column.value)(row),
            ),
          ),
        ),
      ),
    );
  };
  const sortBy = (column) => {
    const name = column.name;
    order = nextOrder(order, column);
    draw();
    head.querySelectorAll("button")[columns.findIndex((other) => other.name === name)].focus();
  };
  draw();
  return table;
}

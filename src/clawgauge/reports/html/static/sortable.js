// Tables whose headings sort. What is absent goes last, whichever way the rest is sorted.

function compareValues(a, b) {
  const aAbsent = a === null || a === undefined || a === "";
  const bAbsent = b === null || b === undefined || b === "";
  if (aAbsent || bAbsent) return aAbsent - bAbsent;
  return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
}

// `order` is {column, descending}; equal rows stay as they were.
function sortRows(rows, valueOf, descending) {
  const isAbsent = (value) => value === null || value === undefined || value === "";
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
  const sorted = order.column === column.name;
  return html(
    "th",
    { scope: "col", class: column.class, "aria-sort": sorted ? (order.descending ? "descending" : "ascending") : null },
    html(
      "button",
      { type: "button", class: "sort", title: column.title, click: () => onSort(column) },
      column.label,
      html("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (order.descending ? "▼" : "▲") : ""),
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

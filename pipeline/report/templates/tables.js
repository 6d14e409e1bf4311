"use strict";
// Sortable tables: a click or the Enter key on a column's title sorts, a second one turns around.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  for (const head of table.querySelectorAll("th[data-column]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const turned = head.ariaSort === "descending" ? "ascending" : "descending";
      const order = head.ariaSort ? turned : head.dataset.first;
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const column = Number(head.dataset.column);
      const sign = order === "ascending" ? 1 : -1;
      const value = (row) => row.cells[column].dataset.value;
      const rows = [...body.rows];
      rows.sort((a, b) => sign * (head.dataset.kind === "text"
        ? value(a).localeCompare(value(b)) : Number(value(a)) - Number(value(b))));
      body.append(...rows);
    });
  }
}

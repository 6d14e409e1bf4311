"use strict";
// Sortable tables: a click or the Enter key on a column's title sorts, a second one turns around.
// Rows stay in their group; its title, a row with a single cell, stays on top.
for (const table of document.querySelectorAll("table.sortable")) {
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
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter((row) => row.cells.length > 1);
        rows.sort((a, b) => sign * (head.dataset.kind === "text"
          ? value(a).localeCompare(value(b)) : Number(value(a)) - Number(value(b))));
        body.append(...rows);
      }
    });
  }
}
// Pictures: a click or the Enter key shows one large; a click, Escape or Enter closes it again.
const shown = document.createElement("dialog");
shown.setAttribute("aria-label", "Enlarged picture");
shown.addEventListener("click", () => shown.close());
document.body.append(shown);
for (const image of document.querySelectorAll("main img")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "zoom";
  button.title = "Enlarge";
  image.before(button);
  button.append(image);
  button.addEventListener("click", () => {
    const { naturalWidth: width, naturalHeight: height } = image;
    // at most twice its pixels: more would be blurred
    const factor = Math.min(2, 0.92 * innerWidth / width, 0.75 * innerHeight / height);
    const large = image.cloneNode();
    large.width = Math.round(factor * width);
    large.height = Math.round(factor * height);
    const said = document.createElement("p");
    said.textContent = image.alt;
    const close = document.createElement("button");
    close.type = "button";
    close.textContent = "Close";
    shown.replaceChildren(large, said, close);
    shown.showModal();
  });
}

// Draws the charts and makes tables sortable. The specifications are data on the page; nothing is fetched, and with
// `ast` Vega interprets its expressions, so that the page's policy can forbid eval.
"use strict";
const stored = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "{}");
for (const holder of document.querySelectorAll(".chart")) {
  const spec = { ...stored("spec-" + holder.id), datasets: stored("rows") };
  if (holder.clientWidth < 500) spec.height = Math.min(spec.height, 440);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const options = { renderer: "svg", actions: false, ast: true, tooltip: { theme: dark ? "dark" : "light" } };
  vegaEmbed(holder, spec, options).then(
    () => { holder.dataset.drawn = "yes"; },
    (error) => { holder.textContent = "This chart could not be drawn."; console.error(error); });
}
function sortBy(table, column, ascending) {
  const value = (row) => {
    const cell = row.cells[column];
    if (cell.dataset.v === undefined) return cell.textContent;
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number"
    ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
  const rows = Array.from(table.tBodies[0].rows).map((row) => [value(row), row]);
  rows.sort(([a], [b]) => {  // what is not known stays last, whichever way
    if (a === null || b === null) return (a === null) - (b === null);
    return ascending ? compare(a, b) : compare(b, a);
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
}
for (const table of document.querySelectorAll("table.data")) {
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sortBy(table, column, ascending);
    });
  });
}

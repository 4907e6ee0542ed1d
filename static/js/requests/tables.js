// Tables of a card are sorted by a column, by what is in it, and filtered. Without this they are plain tables.
import { number } from "../site/time.js";

const EMPTY = new Set(["", "—"]);

// "1,234.50", "1.234,50", "12 %": the last mark is the decimal one if both are there.
function numberOf(text) {
  const plain = text.replace(/[\s\u2009%]/g, "").replace("−", "-");
  const commas = plain.lastIndexOf(",") > plain.lastIndexOf(".") && plain.includes(".");
  const value = Number(commas ? plain.replaceAll(".", "").replace(",", ".") : plain.replaceAll(",", ""));
  return Number.isNaN(value) ? null : value;
}

// Empty cells are last, whichever way.
function compare(one, other, byNumber, sign) {
  const [a, b] = [one.text, other.text];
  if (EMPTY.has(a) || EMPTY.has(b)) return Number(EMPTY.has(a)) - Number(EMPTY.has(b)) || one.place - other.place;
  const order = byNumber ? numberOf(a) - numberOf(b) : a.localeCompare(b, undefined, { numeric: true, sensitivity: "base" });
  return sign * order || one.place - other.place;
}

// All rows in one body: what was folded is part of what is sorted and filtered.
function rowsOf(table) {
  const [first, ...others] = table.tBodies;
  for (const body of others) {
    first.append(...body.rows);
    body.remove();
  }
  table.closest(".table-part").querySelector(":scope > .more")?.remove();
  const rows = [...first.rows];
  rows.forEach((row, place) => { row.dataset.place ??= place; });
  return rows;
}

function sort(button) {
  const head = button.closest("th");
  const table = head.closest("table");
  const down = head.getAttribute("aria-sort") === "ascending";
  const rows = rowsOf(table).map((row) => ({ row, place: Number(row.dataset.place), text: row.cells[head.cellIndex]?.textContent.trim() ?? "" }));
  const byNumber = rows.every(({ text }) => EMPTY.has(text) || numberOf(text) !== null);
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  rows.sort((one, other) => compare(one, other, byNumber, down ? -1 : 1));
  table.tBodies[0].append(...rows.map(({ row }) => row));
}

function filter(input) {
  const part = input.closest(".table-part");
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = rowsOf(part.querySelector("table"));
  for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  const left = rows.filter((row) => !row.hidden).length;
  const place = part.querySelector("[data-row-count]");
  place.textContent = words.length ? `${number(left)} of ${place.dataset.rowCount} rows` : `${place.dataset.rowCount} rows`;
}

function prepare() {
  for (const head of document.querySelectorAll("table[data-sortable] > thead th")) {
    if (head.querySelector("button") || !head.textContent.trim()) continue;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "sort-button" });
    button.append(...head.childNodes);
    head.append(button);
  }
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.(".sort-button");
  if (button) sort(button);
});
document.addEventListener("input", ({ target }) => { if (target.matches?.("[data-filter-rows]")) filter(target); });
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches?.("[data-filter-rows]")) event.preventDefault();
});
document.addEventListener("htmx:after:swap", prepare);
prepare();

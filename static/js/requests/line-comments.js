// Comments on lines of a difference: begun, taken back and listed without a round trip. They are fields of the answer's
// form, so they are kept as its draft and sent with it. Without this a line's button posts the form, and it comes back
// with the field.
import { counted } from "../site/time.js";

const BUTTON = "button.line-button";
const ROW = ".line-note:has(textarea)";

const seen = (node) => node.getClientRects().length > 0;
const buttonsOf = (spot) => [...document.querySelectorAll(`${BUTTON}[value="${CSS.escape(spot)}"]`)];
const fields = () => [...document.querySelectorAll('textarea[name^="line:"]')];
const spotOf = (field) => field.name.slice("line:".length);
const boxOf = (field) => field.closest("[data-line-comment]");

// "KEY:n10-12" -> its parts.
function parse(spot) {
  const found = /^(.+):([no])(?:(\d+)-)?(\d+)$/.exec(spot);
  return found && { key: found[1], side: found[2], start: Number(found[3] ?? found[4]), line: Number(found[4]) };
}

function placeOf(spot) {
  const { side, start, line } = parse(spot);
  const sign = side === "o" ? "−" : "";
  const button = buttonsOf(last(spot))[0];
  const file = button?.closest("[data-lines-of]")?.dataset.linesOf ?? "";
  return `${file}:${start < line ? `${sign}${start}-` : ""}${sign}${line}`;
}

function last(spot) {
  const { key, side, line } = parse(spot);
  return `${key}:${side}${line}`;
}

// The row below the last line of a comment, in the table that is shown.
function put(row, spot) {
  const button = buttonsOf(last(spot)).find(seen) ?? buttonsOf(last(spot))[0];
  if (!button) return;
  let place = button.closest("tr");
  while (place.nextElementSibling?.matches(".line-note") && place.nextElementSibling !== row) place = place.nextElementSibling;
  row.firstElementChild.colSpan = button.closest("table").matches(".beside") ? 4 : 3;
  place.after(row);
}

function rename(box, spot) {
  const field = box.querySelector("textarea");
  const place = placeOf(spot);
  field.name = field.id = `line:${spot}`;
  box.dataset.lineComment = place;
  const label = box.querySelector("label");
  label.htmlFor = field.id;
  label.textContent = `Comment on ${place}`;
}

function begin(spot) {
  const there = document.getElementById(`line:${spot}`);
  if (there) return there.focus();
  const row = document.createElement("tr");
  row.className = "line-note";
  const cell = row.insertCell();
  cell.append(document.querySelector("[data-line-template]").content.cloneNode(true));
  rename(cell.firstElementChild, spot);
  const fold = buttonsOf(last(spot))[0]?.closest("tbody.folded")?.previousElementSibling?.querySelector("input");
  if (fold) fold.checked = true;
  put(row, spot);
  reveal();
  cell.querySelector("textarea").focus();
}

// With Shift the comment that is being written reaches up, or down, to this line.
function extend(spot) {
  const field = document.activeElement?.closest?.("[data-line-comment]")?.querySelector("textarea") ?? fields().at(-1);
  const from = field && parse(spotOf(field));
  const to = parse(spot);
  if (!from || from.key !== to.key || from.side !== to.side) return false;
  const [start, line] = [Math.min(from.start, to.line), Math.max(from.line, to.line)];
  const range = `${to.key}:${to.side}${start < line ? `${start}-` : ""}${line}`;
  if (document.getElementById(`line:${range}`)) return false;
  rename(boxOf(field), range);
  const row = field.closest("tr");
  if (row) put(row, range);
  field.focus();
  changed(field);
  return true;
}

const changed = (field) => field.dispatchEvent(new Event("input", { bubbles: true }));

function drop(box) {
  const field = box.querySelector("textarea");
  const button = buttonsOf(last(spotOf(field))).find(seen);
  const form = field.form;
  (box.closest("tr") ?? box).remove();
  (button ?? document.querySelector(".dock button"))?.focus({ preventScroll: true });
  form?.dispatchEvent(new CustomEvent("draft:changed", { bubbles: true }));
  list();
}

// What will be sent, in the dock.
function list() {
  const dock = document.querySelector("[data-line-comments]");
  if (!dock) return;
  const written = fields().filter((field) => field.value.trim());
  const words = counted(written.length, "line comment");
  dock.hidden = !written.length;
  if (dock.hidden) dock.querySelector("details").open = false;
  dock.querySelector("[data-line-count]").textContent = words;
  dock.querySelector("[data-line-list]").replaceChildren(...written.map((field) => {
    const item = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: `#${field.id}`, textContent: boxOf(field).dataset.lineComment });
    item.append(link, " ", Object.assign(document.createElement("span"), { className: "text-block", textContent: field.value }));
    return item;
  }));
}

// The lines named beside the button: those that are not shown take no comment.
function named(button) {
  const input = button.parentElement.querySelector("[data-lines]");
  const side = button.parentElement.querySelector("select").value;
  const found = /^\s*(?:(\d+)\s*[-–]\s*)?(\d+)\s*$/.exec(input.value);
  const spots = found ? [found[1] ?? found[2], found[2]].map((line) => `${button.value}:${side}${Number(line)}`) : [];
  const fine = spots.length && spots.every((spot) => buttonsOf(spot).length) && Number(found[1] ?? 0) <= Number(found[2]);
  input.setCustomValidity(fine ? "" : "A line that is shown: its number, or a range like 10-12");
  if (!fine) return input.reportValidity();
  const first = found[1] && Number(found[1]) < Number(found[2]) ? `${Number(found[1])}-` : "";
  input.value = "";
  begin(`${button.value}:${side}${first}${Number(found[2])}`);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[name=_comment]");
  const away = event.target.closest?.("[data-drop-comment]");
  const link = event.target.closest?.("[data-line-list] a");
  if (button) {
    event.preventDefault();
    if (!parse(button.value)) named(button);
    else if (!event.shiftKey || !extend(button.value)) begin(button.value);
  } else if (away) drop(boxOf(away));
  else if (link) {
    event.preventDefault();
    link.closest("details").open = false;
    const field = document.getElementById(link.getAttribute("href").slice(1));
    const file = field?.closest(".diff-file > details");
    if (file) file.open = true;
    field?.focus();
  }
});

document.addEventListener("input", ({ target }) => {
  if (target.matches?.("[data-lines]")) target.setCustomValidity("");
  if (target.name?.startsWith("line:")) list();
});

// Arrows go from line to line; Enter in the field of numbers is its button, Escape leaves an empty comment.
document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (event.isComposing) return;
  if (target.matches?.(BUTTON) && (key === "ArrowDown" || key === "ArrowUp")) {
    const all = [...target.closest(".diff-scroll").querySelectorAll(BUTTON)].filter(seen);
    const next = all[all.indexOf(target) + (key === "ArrowDown" ? 1 : -1)];
    event.preventDefault();
    event.stopPropagation();
    if (next) {
      target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }
  } else if (target.matches?.("[data-lines]") && key === "Enter") {
    event.preventDefault();
    named(target.closest(".line-add").querySelector("button"));
  } else if (key === "Escape" && target.name?.startsWith("line:") && !target.value.trim()) {
    event.stopPropagation();
    drop(boxOf(target));
  }
}, true);

// Side by side is another table: comments move along.
document.addEventListener("change", ({ target }) => {
  if (!target.matches?.("[data-beside]")) return;
  for (const row of document.querySelectorAll(ROW)) put(row, spotOf(row.querySelector("textarea")));
  reveal();
});

function reveal() {
  for (const button of document.querySelectorAll("[data-drop-comment]")) button.hidden = false;
  for (const scroll of document.querySelectorAll(".diff-scroll")) {
    if (scroll.querySelector(`${BUTTON}[tabindex="0"]`)) continue;
    const first = [...scroll.querySelectorAll(BUTTON)].find(seen);
    if (first) first.tabIndex = 0;
  }
}

document.addEventListener("htmx:after:swap", reveal);
reveal();

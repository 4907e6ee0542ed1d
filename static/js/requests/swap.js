// Shows another page in this one's place: of parts marked [data-swap="name"] each is replaced by the part that the page
// has under that name. The list beside the card stays as it is, so that no row moves; it only marks another one.
const PARTS = "[data-swap]";
const ROWS = "#inbox-list [data-row]";

export const parse = (text) => new DOMParser().parseFromString(text, "text/html");

const names = (root) => [...root.querySelectorAll(PARTS)].map((part) => part.dataset.swap).sort().join();
const sheet = (root) => root.querySelector('link[rel="stylesheet"]')?.getAttribute("href");

// Whether the page has the same parts as this one, and was made by the same version of wfdash.
export const fits = (page) => names(page) === names(document) && names(page) !== "";
export const isOfThisVersion = (page) => sheet(page) === sheet(document);

export function show(page, address) {
  for (const part of document.querySelectorAll(PARTS)) {
    const fresh = document.importNode(page.querySelector(`[data-swap="${part.dataset.swap}"]`), true);
    part.replaceWith(fresh);
    window.htmx?.process(fresh);
  }
  document.title = page.title;
  history.replaceState(null, "", address);
  mark(page);
  document.dispatchEvent(new CustomEvent("list:shown"));
  document.dispatchEvent(new CustomEvent("htmx:after:swap"));
}

function mark(page) {
  const list = document.getElementById("inbox-list");
  const fresh = page.getElementById("inbox-list");
  if (!list || !fresh) return;
  document.querySelector(".inbox").className = page.querySelector(".inbox").className;
  const here = page.querySelector(`${ROWS}:has([aria-current])`)?.dataset.row;
  const shown = document.querySelector(`${ROWS}[data-row="${CSS.escape(here ?? "")}"]`);
  if (!shown) {
    list.replaceWith(document.importNode(fresh, true));
    return;
  }
  for (const row of document.querySelectorAll(ROWS)) {
    row.classList.toggle("is-gone", row !== shown && (row.classList.contains("is-gone") || !page.getElementById(row.id)));
    row.classList.toggle("is-here", row === shown);
    if (row === shown) row.querySelector("[data-nav]").setAttribute("aria-current", "true");
    else row.querySelector("[data-nav]").removeAttribute("aria-current");
  }
  shown.scrollIntoView({ block: "nearest" });
}

// Shows another page in this one's place: of parts marked [data-swap="name"] each is replaced by the part that the page
// has under that name. The list beside the card stays as it is, so that no row moves; it only marks another one.
const PARTS = "[data-swap]";
const ROWS = "#inbox-list [data-row]";

export const parse = (text) => new DOMParser().parseFromString(text, "text/html");

const names = (root) => [...root.querySelectorAll(PARTS)].map((part) => part.dataset.swap).sort().join();
const sheet = (root) => root.querySelector('link[rel="stylesheet"]')?.getAttribute("href");

const shownIn = (root) => root.querySelector("[data-request]")?.dataset.request;

// Whether the page has the same parts as this one, and was made by the same version of wfdash.
export const fits = (page) => names(page) === names(document) && names(page) !== "";
export const isOfThisVersion = (page) => sheet(page) === sheet(document);

// ``step``: the page becomes an entry of the browser's history instead of taking the place of this one. ``listed``: its list
// says what became of the rows of this one.
export function show(page, address, { step = false, listed = true } = {}) {
  const before = shownIn(document);
  for (const part of document.querySelectorAll(PARTS)) {
    const fresh = document.importNode(page.querySelector(`[data-swap="${part.dataset.swap}"]`), true);
    fresh.classList.toggle("is-next", part.dataset.swap === "card" && shownIn(page) !== before);
    part.replaceWith(fresh);
    window.htmx?.process(fresh);
  }
  document.title = page.title;
  const inbox = document.querySelector(".inbox");
  if (inbox) inbox.className = page.querySelector(".inbox").className;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  document.dispatchEvent(new CustomEvent("card:shown"));
  if (listed) mark(page);
  document.dispatchEvent(new CustomEvent("htmx:after:swap"));
}

function mark(page) {
  const list = document.getElementById("inbox-list");
  const fresh = page.getElementById("inbox-list");
  if (!list || !fresh) return;
  const here = page.querySelector(`${ROWS}:has([aria-current])`)?.dataset.row;
  const shown = document.querySelector(`${ROWS}[data-row="${CSS.escape(here ?? "")}"]`);
  if (!shown) {
    list.replaceWith(document.importNode(fresh, true));
    document.dispatchEvent(new CustomEvent("list:shown"));
    return;
  }
  for (const row of document.querySelectorAll(ROWS)) {
    row.classList.toggle("is-gone", row !== shown && (row.classList.contains("is-gone") || !page.getElementById(row.id)));
  }
  point(shown.dataset.row);
}

function withRequest(search, id) {
  const query = new URLSearchParams(search);
  query.set("request", id);
  return query;
}

// Marks the row whose card is shown. Another page of the list may have it: then none is marked.
export function point(id) {
  for (const row of document.querySelectorAll(ROWS)) {
    const here = row.dataset.row === id;
    row.classList.toggle("is-here", here);
    if (here) row.querySelector("[data-nav]").setAttribute("aria-current", "true");
    else row.querySelector("[data-nav]").removeAttribute("aria-current");
    if (here) row.scrollIntoView({ block: "nearest" });
  }
  for (const link of document.querySelectorAll("a[data-with-request]")) if (id) link.search = withRequest(link.search, id);
}

// A card begins at its headline; where it has none, at the heading of what is said instead.
export function readCard(outcome) {
  for (const row of document.querySelectorAll("#inbox-list .is-here.is-unread")) {
    row.classList.remove("is-unread");
    row.querySelector(".row-mark").replaceChildren();
  }
  const heading = document.querySelector(".inbox-card h1, .focus-card h1");
  const place = outcome ?? document.getElementById("card-subject") ?? heading ?? document.getElementById("main");
  place?.setAttribute("tabindex", "-1");
  place?.focus({ preventScroll: true });
  document.querySelector(".inbox-card")?.scrollTo({ top: 0, behavior: "instant" });
  scrollTo({ top: 0, behavior: "instant" });
}

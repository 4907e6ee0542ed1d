// The stream of events on a run's pages: it can be paused and resumed, nothing is lost; an event's address opens at it.
import { holdRows, releaseRows } from "../live/rows.js";
import { counted } from "../site/time.js";

const WAIT = 1_000;
let pageTimer = 0;
let pageWaits = false;
let shown = 0;

const paused = () => document.querySelector("[data-pause]")?.getAttribute("aria-pressed") === "true";

function tellHeld(count) {
  shown = count;
  for (const place of document.querySelectorAll("[data-held]")) place.textContent = count;
}

function setPaused(on) {
  for (const button of document.querySelectorAll("[data-pause]")) button.setAttribute("aria-pressed", String(on));
  const words = document.querySelector("[data-held-words]");
  if (on) {
    holdRows(tellHeld);
    tellHeld(0);
    if (words) words.textContent = "Paused";
    return;
  }
  if (words) words.textContent = `Resumed: ${counted(shown, "new event")}`;
  releaseRows();
  tellHeld(0);
  if (pageWaits) renewPage();
}

// Grouped or filtered events are fetched again, because only the server knows what matches.
function renewPage() {
  clearTimeout(pageTimer);
  pageTimer = 0;
  const page = document.querySelector("[data-live-page]");
  if (!page) return;
  pageWaits = paused();
  if (!pageWaits) window.htmx?.trigger(page, "run:page");
}

function showButtons() {
  for (const button of document.querySelectorAll("[data-pause]")) button.hidden = false;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-pause]");
  if (button) setPaused(button.getAttribute("aria-pressed") !== "true");
});
document.body.addEventListener("live:events", ({ detail }) => {
  if (!document.querySelector("[data-live-page]")) return;
  if (paused()) tellHeld(shown + detail.events.length);
  pageTimer ||= setTimeout(renewPage, WAIT);
});
document.addEventListener("htmx:after:swap", showButtons);

const marked = document.querySelector("[data-marked]")?.dataset.marked;
const row = marked && document.getElementById(`e${marked}`);
for (const list of document.querySelectorAll("[data-live-events]")) list.scrollTop = list.scrollHeight;
if (row) {
  row.querySelector("details")?.setAttribute("open", "");
  row.scrollIntoView({ block: "center" });
}
showButtons();

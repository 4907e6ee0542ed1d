// Puts what a live socket brings into the page: event rows into [data-live-events], streamed text beside them.
import { refresh as renewTimes } from "../site/time.js";

const MOST_ROWS = 2_000;
const MOST_TEXT = 20_000;
const TAIL = 1_000;
const NEAR_END = 24;
const ENDS = new Set(["step.finished", "step.failed", "step.waiting"]);

const seqOf = (row) => Number(row?.dataset.seq ?? 0);

// While the stream is held: what arrived since, whether the page must be reloaded, and the callback for the count.
let held = null;
export function holdRows(tell) {
  held = { events: [], count: 0, reload: false, tell };
}

export function releaseRows() {
  const { events, reload } = held;
  held = null;
  if (reload) reloadRows().catch(() => {});
  else addRows(events);
}

// Rows keep the order of their seq, and a row that is there already is not put in twice.
export function addRows(events) {
  if (held) {
    held.events = [...held.events, ...events].slice(-MOST_ROWS);
    held.reload ||= held.count + events.length > MOST_ROWS;
    held.tell((held.count += events.length));
    return;
  }
  for (const list of document.querySelectorAll("[data-live-events]")) {
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    for (const event of events) addRow(list, event);
    while (list.children.length > MOST_ROWS) list.firstElementChild.remove();
    if (atEnd) list.scrollTop = list.scrollHeight;
    linkOlder(list);
  }
  for (const event of events) if (ENDS.has(event.kind)) endText(event.step);
}

// Rows that are too many leave at the top: the link to older ones must begin where the list does now.
function linkOlder(list) {
  const link = list.parentElement.querySelector("a[data-older]");
  const query = new URLSearchParams(link?.search);
  query.set("before", seqOf(list.firstElementChild));
  if (link) link.search = query;
}

function addRow(list, event) {
  const row = parse(event.html);
  if (!row) return;
  renewTimes(row);
  row.dataset.seq = event.seq;
  let before = list.lastElementChild;
  while (before && seqOf(before) > event.seq) before = before.previousElementSibling;
  if (before && seqOf(before) === event.seq) return;
  if (before) before.after(row);
  else list.prepend(row);
}

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

const placesOf = (step) => {
  const own = document.querySelectorAll(`[data-stream-step="${CSS.escape(step)}"]`);
  return own.length ? own : document.querySelectorAll("[data-live-stream]");
};

// Text comes a little later than events: what follows a step's end at once is its tail, what comes later starts again.
// ``begin``: instead of what is shown, because a new attempt begins or one has just come; ``cut``: text before it is missing.
export function addText({ step, text, begin, cut }) {
  for (const place of placesOf(step)) {
    const { streaming, ended } = place.dataset;
    const begun = streaming === step && !(ended && Date.now() - ended > TAIL);
    if (!begun) delete place.dataset.ended;
    place.dataset.streaming = step;
    // The end is followed, unless the reader has scrolled up.
    const follows = place.hidden || place.scrollTop + place.clientHeight >= place.scrollHeight - NEAR_END;
    place.hidden = false;
    const before = (begun && !begin ? place.textContent : "") + (cut ? "… " : "");
    place.textContent = (before + text).slice(-MOST_TEXT);
    if (follows) place.scrollTop = place.scrollHeight;
  }
}

// The text stays to be read, marked as ended.
function endText(step) {
  for (const place of placesOf(step ?? "")) if (place.dataset.streaming === step) place.dataset.ended = Date.now();
}

// After a gap too large to be sent: take the list from the page as it is now. Nothing else is touched.
export async function reloadRows() {
  if (!document.querySelector("[data-live-events]")) return;
  if (held) return void (held.reload = true);
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const rows = page.querySelector("[data-live-events]")?.children ?? [];
  for (const list of document.querySelectorAll("[data-live-events]")) {
    const newer = [...list.children].filter((row) => seqOf(row) > seqOf([...rows].at(-1)));
    list.replaceChildren(...[...rows].map((row) => document.importNode(row, true)), ...newer);
  }
}

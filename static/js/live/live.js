// Makes the page live. <… data-live="…/live/…/" data-after="seq"> names the stream; events are dispatched on <body>:
// live:events {address, events}, live:stream {step, text}, live:snapshot {seq}, and live:changed {what} when panels
// should be fetched again (what: ["run"] for a run's page, "runs" and "inbox" for lists, "request:id" and "people:id"
// for what people do to a request: these are sent at once).
import { addRows, addText, reloadRows } from "./rows.js";
import { LiveSocket } from "./socket.js";

// Milliseconds between two refreshes of panels: four times what the last one took, so that hundreds of open pages ask a
// busy server less often.
const SETTLE = 250;
const LONGEST = 10_000;
const ORDER = ["lost", "connecting", "behind", "live"];
const WORDS = { 4401: "Signed out: reload to sign in", 4403: "You no longer have access", 4404: "Not found", 4400: "Reload this page" };

const sockets = [];
const states = new Map();
const changed = new Set();
let settling = 0;
let settled = -Infinity;
let pause = SETTLE;
let waiting = false;

const tell = (name, detail) => document.body.dispatchEvent(new CustomEvent(name, { bubbles: true, detail }));

// Many events in a row make two refreshes, the first at once; a hidden tab makes none until it is visible.
function change(what) {
  for (const part of what) changed.add(part);
  if (document.hidden || !changed.size) return;
  const urgent = what.some((part) => part.includes(":"));
  const wait = urgent ? 0 : settled + pause - performance.now();
  if (wait <= 0) return flush();
  settling ||= setTimeout(flush, wait);
}

function flush() {
  clearTimeout(settling);
  settling = 0;
  if (document.hidden || !changed.size) return;
  settled = performance.now();
  waiting = true;
  const detail = { what: [...changed] };
  changed.clear();
  tell("live:changed", detail);
}

function showState(key, state, code) {
  if (state) states.set(key, { state, code });
  const worst = [...states.values()].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state))[0];
  for (const place of document.querySelectorAll("[data-live-state]")) {
    place.dataset.liveState = worst?.state ?? "off";
    const words = place.querySelector("[data-live-words]");
    if (words) words.textContent = WORDS[worst?.code] ?? "";
  }
}

function follow(element) {
  const { live: address, after } = element.dataset;
  const socket = new LiveSocket(address, after === undefined ? null : Number(after), {
    events(events) {
      addRows(events);
      tell("live:events", { address, events });
      change(["run"]);
    },
    stream(message) {
      addText(message);
      tell("live:stream", message);
    },
    snapshot(seq) {
      reloadRows().catch(() => {});
      tell("live:snapshot", { address, seq });
      change(["run"]);
    },
    changed(what) {
      if (what.includes("notices")) tell("live:notices", {}); // at once: a hidden tab is the one that has to say it
      change(what);
    },
    state: (state, code) => showState(address, state, code),
  });
  sockets.push(socket);
}

document.addEventListener("htmx:after:swap", () => {
  if (waiting) pause = Math.min(LONGEST, Math.max(SETTLE, 4 * (performance.now() - settled)));
  waiting = false;
});

const addresses = new Set();
for (const element of document.querySelectorAll("[data-live]")) {
  if (addresses.has(element.dataset.live)) continue;
  addresses.add(element.dataset.live);
  follow(element);
}

const retryAll = () => sockets.forEach((socket) => socket.retry());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  retryAll();
  change([]);
});
addEventListener("online", retryAll);
addEventListener("pagehide", () => sockets.forEach((socket) => socket.stop()));
addEventListener("pageshow", (event) => event.persisted && retryAll());

// Says that this person has a request open, hears who else has, and renews what is shown about it: [data-request].
import { root } from "../site/root.js";

const BEAT = 15_000;
const TYPED = 8_000;
const CALM = 1_000;
const AGAIN = 2_000;

let shown = "";
let seen = "";
let typedAt = -Infinity;
let toldTyping = false;
let waiting = 0;
let renewedAt = -Infinity;

const panel = () => document.querySelector("[data-request]");
const address = (id) => `${root}requests/${encodeURIComponent(id)}/presence/`;
const token = () => JSON.parse(document.body.getAttribute("hx-headers") ?? "{}")["x-csrftoken"] ?? "";
const typing = () => performance.now() - typedAt < TYPED;

function tell(id, facts) {
  const body = new URLSearchParams({ ...facts, csrfmiddlewaretoken: token() });
  return fetch(address(id), { method: "POST", body, keepalive: true }).catch(() => {});
}

function beat() {
  const here = panel();
  // Beside the list of a phone the card is there but not seen.
  const seen = here?.checkVisibility() && !document.hidden;
  const id = seen && "open" in here.dataset ? here.dataset.request : "";
  if (shown !== id) leave();
  shown = id;
  if (!id) return;
  toldTyping = typing();
  tell(id, toldTyping ? { typing: 1 } : {}).then((answer) => heard(id, answer)).catch(() => {});
}

async function heard(id, answer) {
  if (answer?.status >= 500) setTimeout(beat, AGAIN);
  if (answer?.ok && id === shown) ({ seen } = await answer.json());
}

// Another page of this person may have the request open, or is just opening it: that one's later heartbeat counts.
function leave() {
  if (shown && seen) tell(shown, { leave: 1, seen });
  seen = "";
}

// One's own request at once; what happens to others at most once a second.
function renew(urgent) {
  clearTimeout(waiting);
  const wait = urgent ? 0 : Math.max(0, renewedAt + CALM - performance.now());
  waiting = setTimeout(() => {
    const live = document.getElementById("request-live");
    // An answer that is on its way changes the page itself.
    if (!live || document.querySelector("[data-sending]")) return;
    renewedAt = performance.now();
    live.dispatchEvent(new CustomEvent("request:moved"));
  }, wait);
}

// Answered by someone else in the meantime: what was typed can still be copied, but not sent.
function shut() {
  const live = document.getElementById("request-live");
  const closed = live !== null && "shut" in live.dataset;
  for (const button of document.querySelectorAll("#answer-form button, [form=answer-form][formaction]")) {
    if (closed && !button.disabled) Object.assign(button, { disabled: true }).dataset.shut = "";
    else if (!closed && "shut" in button.dataset) { button.disabled = false; delete button.dataset.shut; }
  }
}

document.body.addEventListener("live:changed", ({ detail: { what } }) => {
  const id = panel()?.dataset.request;
  if (!id) return;
  if ([`request:${id}`, `people:${id}`, "request:*"].some((part) => what.includes(part))) renew(true);
  else if (what.includes("inbox")) renew(false);
});

document.addEventListener("input", (event) => {
  if (!event.target.closest("#answer-form, #request-thread")) return;
  typedAt = performance.now();
  if (!toldTyping) beat();
});

document.addEventListener("htmx:after:swap", () => {
  shut();
  if ((panel()?.dataset.request ?? "") !== shown) beat();
});
document.addEventListener("visibilitychange", beat);
addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => { if (event.persisted) beat(); });

setInterval(beat, BEAT);
setInterval(() => { if (toldTyping && !typing()) beat(); }, 2_000);
beat();

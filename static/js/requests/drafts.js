// Keeps what is typed in the card's form as this person's draft, a moment after they stop.
import { exact } from "../site/time.js";

const PAUSE = 800;
const OWN = new Set(["csrfmiddlewaretoken", "_seen", "_reason", "_signature"]);

let timer = 0;
let pending = false;

const form = () => document.getElementById("answer-form");
const note = (words) => {
  const place = document.querySelector("[data-draft-note]");
  if (place) place.textContent = words;
};

function fieldsOf(source) {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(source)) if (!OWN.has(name) && !/^_(lines|side):/.test(name) && typeof value === "string") fields.append(name, value);
  const open = source.querySelector("details.action[open] button[name=_action]");
  if (open) fields.set("_action", open.value);
  return fields;
}

async function save() {
  clearTimeout(timer);
  const source = form();
  const address = document.querySelector("[data-draft]")?.dataset.draft;
  if (!pending || !source || !address) return;
  pending = false;
  const body = fieldsOf(source);
  body.set("csrfmiddlewaretoken", new FormData(source).get("csrfmiddlewaretoken") ?? "");
  try {
    const answer = await fetch(address, { method: "POST", body, headers: { "x-quiet": "1" }, keepalive: true });
    const now = exact(new Date()).slice(11, 16);
    note(answer.ok ? `Draft saved ${now}` : "Draft not saved. Copy your text before leaving");
  } catch {
    note("Offline: draft not saved yet");
    pending = true;
  }
}

document.addEventListener("input", (event) => {
  if (event.target.form !== form() || !form() || OWN.has(event.target.name)) return;
  pending = true;
  clearTimeout(timer);
  timer = setTimeout(save, PAUSE);
});

document.addEventListener("draft:changed", () => {
  pending = true;
  clearTimeout(timer);
  timer = setTimeout(save, PAUSE);
});

// An answer that is sent needs no draft any more.
function forget(event) {
  if (event.target.getAttribute("id") !== "answer-form" || event.defaultPrevented) return;
  clearTimeout(timer);
  pending = false;
}

document.addEventListener("submit", forget);
document.addEventListener("answer:taken", forget);
addEventListener("online", save);
addEventListener("pagehide", save);
document.addEventListener("card:leaving", ({ detail }) => detail.push(save()));
document.addEventListener("visibilitychange", () => { if (document.hidden) save(); });

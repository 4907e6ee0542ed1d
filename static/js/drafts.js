// Keeps what is typed in the card's form as this person's draft, a moment after they stop.
const PAUSE = 800;
const OWN = new Set(["csrfmiddlewaretoken", "_seen", "_reason"]);

let timer = 0;
let pending = false;

const form = () => document.getElementById("answer-form");
const note = (words) => {
  const place = document.querySelector("[data-draft-note]");
  if (place) place.textContent = words;
};

function fieldsOf(source) {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(source)) if (!OWN.has(name) && typeof value === "string") fields.append(name, value);
  const open = source.querySelector("details.action[open] button[name=_action]");
  if (open) fields.set("_action", open.value);
  return fields;
}

async function save() {
  clearTimeout(timer);
  const source = form();
  const button = document.querySelector("[data-draft]");
  if (!pending || !source || !button) return;
  pending = false;
  const body = fieldsOf(source);
  body.set("csrfmiddlewaretoken", new FormData(source).get("csrfmiddlewaretoken") ?? "");
  try {
    const answer = await fetch(button.dataset.draft, { method: "POST", body, headers: { "x-quiet": "1" }, keepalive: true });
    const now = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    note(answer.ok ? `Draft saved ${now}` : "This draft could not be saved: copy what you typed before you leave");
  } catch {
    note("Offline: this draft is not saved yet");
    pending = true;
  }
}

document.addEventListener("input", (event) => {
  if (event.target.form !== form() || !form() || OWN.has(event.target.name)) return;
  pending = true;
  clearTimeout(timer);
  timer = setTimeout(save, PAUSE);
});

// An answer that is sent needs no draft any more.
document.addEventListener("submit", (event) => {
  if (event.target !== form()) return;
  clearTimeout(timer);
  pending = false;
});
addEventListener("online", save);
addEventListener("pagehide", save);
document.addEventListener("visibilitychange", () => { if (document.hidden) save(); });

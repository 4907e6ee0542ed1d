// Forms work without this. With it, row buttons redraw the form in place, files fill their text at
// once, and what the server would refuse for its size is not sent, so that nothing typed is lost.
import { toast } from "./toast.js";

const ROW_BUTTONS = new Set(["_add", "_remove", "_up", "_down", "_show", "_mode"]);

async function redraw(form, button) {
  const part = button.closest("[data-form]");
  const body = new FormData(form, button);
  const answer = await fetch(form.getAttribute("action") ?? "", { method: "POST", body, headers: { accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById(part.id);
  if (!fresh) throw new Error(`no form in the answer (${answer.status})`);
  keepSecrets(part, fresh, button);
  part.replaceWith(document.adoptNode(fresh));
  return fresh;
}

// The server never sends a secret back; what was typed stays in this page, but for rows that changed their names.
function keepSecrets(part, fresh, button) {
  const moved = ["_remove", "_up", "_down"].includes(button.name) ? button.value.replace(/\d+$/, "") : null;
  for (const input of fresh.querySelectorAll("input[type=password]")) {
    if (moved !== null && input.name.startsWith(moved)) continue;
    const typed = part.querySelector(`input[type=password][name="${CSS.escape(input.name)}"]`);
    if (typed) input.value = typed.value;
  }
}

function focusAfter(part, name, value) {
  const lists = [...part.querySelectorAll("[data-list]")];
  const buttons = [...part.querySelectorAll(`button[name="${name}"]`)];
  const same = buttons.find((button) => button.value === value && !button.disabled);
  if (name === "_mode") return part.querySelector("textarea.mono, input:not([type=hidden]), select, textarea")?.focus();
  if (name !== "_add") return (same ?? part.querySelector("[data-list] button:not(:disabled)"))?.focus();
  const list = lists.find((found) => [...found.querySelectorAll('button[name="_add"]')].at(-1)?.value === value);
  const row = [...(list?.querySelectorAll(":scope > .list-rows > .list-row") ?? [])].at(-1);
  (row?.querySelector("input:not([type=hidden]), textarea, select") ?? same)?.focus();
}

document.addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  if (!submitter || !ROW_BUTTONS.has(submitter.name) || event.defaultPrevented) return;
  event.preventDefault();
  const { name, value } = submitter;
  submitter.setAttribute("aria-busy", "true");
  try {
    focusAfter(await redraw(form, submitter), name, value);
  } catch {
    const hidden = Object.assign(document.createElement("input"), { type: "hidden", name, value });
    form.append(hidden);
    form.submit();
  }
});

const limits = document.documentElement.dataset;
const PART = 300; // bytes around each part of a form with files

function complain(input, words) {
  const id = `${input.id}-size`;
  document.getElementById(id)?.remove();
  for (const [name, value] of [["aria-invalid", "true"], ["aria-describedby", id]]) {
    if (words) input.setAttribute(name, value);
    else input.removeAttribute(name);
  }
  if (!words) return;
  const line = Object.assign(document.createElement("p"), { id, className: "error", role: "alert", textContent: words });
  input.closest(".upload").after(line);
}

document.addEventListener("change", async ({ target: input }) => {
  if (!(input instanceof HTMLInputElement) || !input.dataset.mostBytes) return;
  const file = input.files[0];
  const over = file && file.size > Number(input.dataset.mostBytes);
  complain(input, over ? `${input.dataset.tooLarge}. ${file.name} was not chosen.` : "");
  if (over) input.value = "";
  const area = document.getElementById(input.dataset.upload ?? "");
  if (!area || !file || over) return;
  const text = await file.text();
  if (text.includes("\r")) return;
  area.value = text;
  input.value = "";
  area.dispatchEvent(new Event("input", { bubbles: true }));
});

// Bytes over which the server refuses the form; 0 if it takes it.
function exceeded(form, submitter) {
  const parts = [...new FormData(form, submitter)];
  const typed = parts.filter(([, value]) => !(value instanceof File));
  const files = parts.reduce((sum, [, value]) => sum + (value instanceof File ? value.size : 0), 0);
  const whole = form.getAttribute("enctype") === "multipart/form-data";
  const text = whole ? new Blob(typed.flat()).size : new URLSearchParams(typed).toString().length;
  if (text > Number(limits.mostText)) return Number(limits.mostText);
  return text + files + PART * parts.length > Number(limits.mostBody) ? Number(limits.mostBody) : 0;
}

// On the window: before all else that sends forms.
addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  const most = form.getAttribute("method")?.toLowerCase() === "post" && exceeded(form, submitter);
  if (!most) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  toast(`Too large to send: at most ${Math.floor(most / 1e6)} MB together. Choose smaller files or shorten the text.`, "bad");
}, true);

// Of a double click one counts: the answer to the first one, which may sign in, would never arrive.
const SETTLED = 3000;
let sent = null;
addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.getAttribute("method")?.toLowerCase() !== "post") return;
  if (event.target === sent) return event.preventDefault();
  sent = event.target;
  setTimeout(() => { sent = null; }, SETTLED);
});
addEventListener("pageshow", () => { sent = null; });

// What one writes about stays in sight: the page scrolls only if the sheet would leave next to nothing of it.
const LEAST = 120;
function showProposal(sheet) {
  const proposal = document.querySelector(".card .proposal");
  if (!sheet || !proposal) return;
  const { top, bottom } = proposal.getBoundingClientRect();
  const seen = Math.min(bottom, sheet.getBoundingClientRect().top) - Math.max(top, 0);
  if (seen < Math.min(LEAST, bottom - top)) proposal.scrollIntoView({ block: "start" });
}

// The sheet that a person opens has the focus and lies over the other actions, which rest; one that a page comes with
// does neither.
let pressed = null;
export const openSheet = () => document.querySelector("details.action[open]:not([data-restored] *) > .sheet");

function cover() {
  const covered = openSheet()?.closest(".dock");
  for (const dock of document.querySelectorAll(".dock")) {
    for (const part of dock.querySelectorAll(".dock-says, .decision > :not(details), .dock :is(.action, .dock-more) > summary")) part.inert = dock === covered;
  }
}

document.addEventListener("click", ({ target }) => {
  const action = target.closest?.("details.action > summary")?.parentElement;
  if (!action) return;
  pressed = action;
  action.closest("[data-restored]")?.removeAttribute("data-restored");
}, true);

document.addEventListener("toggle", (event) => {
  if (!event.target.matches?.("details.action")) return;
  if (event.target.open) {
    for (const other of event.target.closest(".dock").querySelectorAll("details.action[open]")) {
      if (other !== event.target) other.open = false;
    }
  }
  cover();
  if (!event.target.open || event.target !== pressed) return;
  showProposal(event.target.querySelector(".sheet"));
  event.target.querySelector(".sheet :is(input:not([type=hidden]), textarea, select)")?.focus({ preventScroll: true });
}, true);

// On a phone most actions are behind More.
export const foldOf = (action) => action.closest(".decision")?.parentElement.querySelector(".dock-more:not([open])");

// Opens it for an action that is not seen; returns whether it did.
export function unfold(action) {
  const fold = !action.checkVisibility() && foldOf(action);
  if (fold) fold.open = true;
  return Boolean(fold);
}

// Cancel, or Escape, closes a sheet; what was typed in it stays.
export function closeSheet() {
  const sheet = document.querySelector("details.action[open]");
  if (!sheet) return false;
  sheet.open = false;
  cover();
  const summary = sheet.querySelector("summary");
  unfold(summary);
  summary.focus({ preventScroll: true });
  return true;
}

document.addEventListener("click", ({ target }) => { if (target.closest?.("[data-close-sheet]")) closeSheet(); });

function reveal() {
  for (const button of document.querySelectorAll("[data-close-sheet]")) button.hidden = false;
  cover();
}

// What is wrong in forms that were sent; of a group of controls, its first one.
const CONTROLS = "input:not([type=hidden]), textarea, select";
const WRITTEN = "input:not([type=checkbox], [type=radio], [type=file], [type=range], [type=color]), textarea";
function wrongFields() {
  const marked = [...document.querySelectorAll("main [aria-invalid=true]")].filter((field) => field.form?.getAttribute("method") === "post");
  return marked.map((field) => (field.matches(CONTROLS) ? field : field.querySelector(CONTROLS) ?? field)).filter((field) => field.checkVisibility());
}

// One writes on where the text ends.
function write(field) {
  const inDock = field.closest(".dock") !== null;
  field.focus({ preventScroll: inDock });
  if (inDock) field.scrollIntoView({ block: "nearest" });
  if (field.matches(WRITTEN) && field.selectionStart !== null) field.setSelectionRange(field.value.length, field.value.length);
}

// After an error: the one field that is wrong has the focus, or else the list of all that is.
export function pointOut() {
  const fields = wrongFields();
  const list = [...document.querySelectorAll("[data-error-summary]")].find((one) => one.checkVisibility());
  const several = list && list.querySelectorAll("li").length > 1;
  if (fields.length && !several) return write(fields[0]);
  const place = list ?? document.querySelector("main [data-swap=card] [role=alert]");
  place?.setAttribute("tabindex", "-1");
  place?.focus({ preventScroll: place.closest(".dock") !== null });
}

// Text that is typed there continues in the first field that is wrong, and presses no key of the page.
document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (key.length !== 1 || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !target.matches?.("[data-error-summary], [data-error-summary] a")) return;
  const [field] = wrongFields();
  event.stopPropagation();
  if (!field) return;
  write(field);
  if (!field.matches(WRITTEN)) event.preventDefault();
}, true);

document.addEventListener("htmx:after:swap", reveal);
reveal();
const unfocused = () => document.activeElement === document.body && wrongFields().length;
if (document.querySelector("[data-error-summary]") || unfocused()) pointOut();
// Where an address has a fragment, the browser takes the focus away again when it scrolls there.
addEventListener("load", () => unfocused() && pointOut());

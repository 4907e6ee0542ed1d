// Sends an answer, or its undo, by fetch and shows the next card in place. Until the server has taken it the form stays
// as it is: a server that is gone is asked again, and a refusal is shown in the card. The form carries a key, so an
// answer that arrives twice counts once. Without this the browser sends the same form.
import { pointOut } from "../site/form.js";
import { fits, isOfThisVersion, parse, readCard, show } from "./swap.js";
import "./sign.js";
import "./undo.js";

const FORMS = "#answer-form, .undo-last, .undo-more form";
const FIRST = 1000;
const LONGEST = 15_000;
const PATIENCE = 60_000;
const GONE = new Set([502, 503, 504]);
const KEPT = "input[type=password], input[type=file]";

// A field may be named "action" or "id": of a form's own attributes only getAttribute is sure.
let sending = null;
let wake = () => {};

const tokenOf = (root) => JSON.parse(root.body.getAttribute("hx-headers") ?? "{}")["x-csrftoken"];

function busy(form, on) {
  for (const button of form.querySelectorAll("button[name=_action], button:not([type=button])")) {
    if (on) button.setAttribute("aria-disabled", "true");
    else button.removeAttribute("aria-disabled");
  }
  form.toggleAttribute("data-sending", on);
  // A comment that is begun now would go with this card.
  document.getElementById("request-thread")?.toggleAttribute("inert", on);
}

// One line over the buttons: what is wrong, and what can be done.
function say(form, text, label = "", act = () => {}) {
  form.querySelector("[data-unsent]")?.remove();
  const line = Object.assign(document.createElement("div"), { className: "alert bad unsent" });
  line.dataset.unsent = "";
  line.setAttribute("role", "alert");
  line.append(Object.assign(document.createElement("div"), { textContent: text }));
  if (label) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "button", textContent: label });
    button.addEventListener("click", act);
    line.append(button);
  }
  (form.querySelector("details[open] > .sheet") ?? form.querySelector(".dock") ?? form).prepend(line);
  return line;
}

// What is being sent is not changed any more. Another try has another key: the first one may have arrived.
function retrying(form) {
  if (form.querySelector("[data-unsent]")) return;
  const typed = form.querySelector("details[open] > .sheet :is(textarea, input:not([type=hidden]))") ?? document.activeElement;
  say(form, "Not sent. Retrying…", "Cancel", () => { cancel(form); typed?.focus({ preventScroll: true }); });
  for (const field of form.querySelectorAll(".form")) field.inert = true;
}

function cancel(form) {
  if (sending === form) sending = null;
  wake();
  settle(form);
  form.querySelector("[data-unsent]")?.remove();
  const key = document.querySelector("input[name=_key][form=answer-form]");
  if (key) key.value = crypto.getRandomValues(new Uint32Array(4)).join("-");
}

function settle(form) {
  busy(form, false);
  for (const field of form.querySelectorAll(".form")) field.inert = false;
}

const pause = (tries) => new Promise((done) => {
  const timer = setTimeout(done, Math.min(LONGEST, FIRST * 2 ** tries));
  wake = () => { clearTimeout(timer); done(); };
});

// After signing in again elsewhere the forms of this page have an old token.
async function renewToken(form) {
  const token = tokenOf(parse(await (await fetch(location.href, { headers: { accept: "text/html" } })).text()));
  const input = form.querySelector("input[name=csrfmiddlewaretoken]");
  if (!token || !input) return false;
  input.value = token;
  document.body.setAttribute("hx-headers", JSON.stringify({ "x-csrftoken": token }));
  return true;
}

async function post(form, body) {
  const options = { method: "POST", headers: { accept: "text/html" }, body };
  const send = () => fetch(form.getAttribute("action"), { ...options, signal: AbortSignal.timeout(PATIENCE) });
  const answer = await send();
  if (answer.status !== 403 || !(await renewToken(form))) return answer;
  body.set("csrfmiddlewaretoken", form.querySelector("input[name=csrfmiddlewaretoken]").value);
  return send();
}

async function persist(form, submitter) {
  const body = new FormData(form, submitter);
  sending = form;
  busy(form, true);
  for (let tries = 0; sending === form; tries++) {
    try {
      const answer = await post(form, body);
      if (GONE.has(answer.status)) throw new TypeError(`${answer.status}`);
      const page = parse(await answer.text());
      if (sending !== form) return;
      sending = null;
      return arrived(form, answer, page);
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
      if (sending !== form) return;
      retrying(form);
      await pause(tries);
    }
  }
}

function arrived(form, answer, page) {
  const signedOut = page.querySelector("[data-sign-in]") !== null;
  const taken = answer.ok && answer.redirected && !signedOut;
  if (taken) form.dispatchEvent(new CustomEvent("answer:taken", { bubbles: true }));
  if (taken && !(fits(page) && isOfThisVersion(page))) return location.assign(answer.url);
  if (fits(page)) {
    const kept = taken ? [] : [...form.querySelectorAll(KEPT)];
    show(page, taken ? answer.url : location.href);
    return taken ? readOn() : keep(kept);
  }
  settle(form);
  const words = signedOut ? "Not sent: you are signed out. Sign in in another tab, then send again." : page.querySelector("main")?.innerText ?? "";
  say(form, words.trim().replace(/\s*\n\s*/g, " ").slice(0, 300) || `Not sent (${answer.status}).`);
}

// The next card begins at its headline; where there is none to decide, what became of this one is read.
function readOn() {
  const outcome = document.querySelector(".dock") ? null : document.querySelector(".request-notice .alert, .link-card > [role=status]");
  readCard(outcome);
}

// A page never sends back what is secret, nor files.
function keep(kept) {
  const form = document.getElementById("answer-form");
  for (const old of kept) {
    const field = form?.querySelector(`input[type=${old.type}][name="${CSS.escape(old.name)}"]`);
    if (!field) continue;
    if (old.type === "file") field.files = old.files;
    else field.value = old.value;
  }
  pointOut();
}

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (event.defaultPrevented || !form.matches(FORMS) || submitter?.hasAttribute("formaction")) return;
  if (form.getAttribute("id") === "answer-form" && submitter?.name && submitter.name !== "_action") return;
  event.preventDefault();
  if (!sending) persist(form, submitter);
});

// A text that reads like yes or no, where any text may count as a yes, is sent only once that is confirmed.
function doubt({ target }) {
  const asked = target.form?.querySelector("[data-doubtful]");
  if (!asked || target.closest("[data-doubtful]")) return;
  const reads = new RegExp(asked.dataset.doubtful, "is");
  const typed = [...target.form.querySelectorAll(".branch > .field > textarea")].filter((area) => area.checkVisibility());
  asked.hidden = !typed.some((area) => reads.test(area.value.trim()));
  if (asked.hidden) asked.querySelector("input").checked = false;
}

document.addEventListener("input", doubt);
document.addEventListener("change", doubt);

// The second click of a double click would fall on the next card, unread.
document.addEventListener("click", (event) => {
  if (event.detail > 1 && event.target.closest?.("#answer-form button[name=_action]")) event.preventDefault();
}, true);

addEventListener("online", () => wake());

// Sends the card's answer by fetch, so that a server that is gone costs no word: the form stays as it is and is sent
// again until the server takes it. The form carries a key, so an answer that arrived twice counts once. Whatever is not
// an accepted answer is left to the browser, which sends the form as it would without this.
const AGAIN = 2000;
const GONE = new Set([502, 503, 504]);
const ANSWERED = "wfdash_answered";

let sending = false;

function banner(form) {
  const old = form.querySelector("[data-unsent]");
  if (old) return old;
  const box = document.createElement("div");
  box.className = "alert bad unsent";
  box.dataset.unsent = "";
  box.setAttribute("role", "alert");
  const words = document.createElement("div");
  words.textContent = "Not sent: server unreachable. Retrying. Your input is kept.";
  const stop = document.createElement("button");
  stop.type = "button";
  stop.className = "button small";
  stop.textContent = "Stop retrying";
  stop.addEventListener("click", () => { sending = false; box.remove(); });
  box.append(words, stop);
  (form.querySelector("details[open] > .sheet") ?? form.querySelector(".dock"))?.prepend(box);
  return box;
}

function sendPlainly(form, button) {
  const hidden = Object.assign(document.createElement("input"), { type: "hidden", name: button.name, value: button.value });
  form.append(hidden);
  form.submit();
}

function busy(form, on) {
  for (const button of form.querySelectorAll("button[name=_action]")) {
    if (on) button.setAttribute("aria-disabled", "true");
    else button.removeAttribute("aria-disabled");
  }
}

async function send(form, button, body) {
  const answer = await fetch(form.action, { method: "POST", body, headers: { "x-answer": "1", accept: "text/html" } });
  if (GONE.has(answer.status)) throw new TypeError(`${answer.status}`);
  const next = answer.headers.get("x-next");
  if (!next) return sendPlainly(form, button);
  sessionStorage.setItem(ANSWERED, "1");
  location.assign(next);
}

async function persist(form, button) {
  const body = new FormData(form, button);
  sending = true;
  busy(form, true);
  while (sending) {
    try {
      await send(form, button, body);
      return;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      banner(form);
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }
  busy(form, false);
}

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (form.id !== "answer-form" || event.defaultPrevented || submitter?.name !== "_action" || submitter.hasAttribute("formaction")) return;
  event.preventDefault();
  if (!sending) persist(form, submitter);
});

// After an answer the next card is where one reads on.
if (sessionStorage.getItem(ANSWERED)) {
  sessionStorage.removeItem(ANSWERED);
  const headline = document.getElementById("card-subject") ?? document.getElementById("main");
  headline?.setAttribute("tabindex", "-1");
  headline?.focus({ preventScroll: true });
}

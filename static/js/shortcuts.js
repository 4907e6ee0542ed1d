// Keyboard: an element names its own key with data-key="a"; "g i" style keys are two presses. ? lists them all.
let pending = "";
let timer = 0;
const OFF = "wfdash_shortcuts_off";
const on = () => localStorage.getItem(OFF) === null;

const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
const typing = (element) => element.closest(FIELDS) !== null;

function find(keys) {
  const all = [...document.querySelectorAll(`[data-key="${CSS.escape(keys)}"]`)];
  return all.find((element) => element.offsetParent !== null && !element.disabled);
}

// data-key-twice: the first press only points at the button, so that no single key decides anything, except where
// data-one-press says that every answer can be taken back.
function act(element) {
  const twice = "keyTwice" in element.dataset && !element.closest("[data-one-press]");
  if (twice && document.activeElement !== element) return element.focus();
  if (element.matches("input:not([type=radio], [type=checkbox]), textarea, select") || "keyFocus" in element.dataset) element.focus();
  else element.click();
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || typing(event.target)) return;
  if (event.key === "?") return list();
  if (!on()) return;
  if (event.key.length !== 1 || document.querySelector("dialog[open]")) return;
  const keys = pending ? `${pending} ${event.key}` : event.key;
  clearTimeout(timer);
  const starts = [...document.querySelectorAll("[data-key]")].some((e) => e.dataset.key.startsWith(`${keys} `));
  pending = starts ? keys : "";
  timer = setTimeout(() => { pending = ""; }, 900);
  const element = find(keys);
  if (!element) return;
  event.preventDefault();
  act(element);
}

function line(element) {
  const row = document.createElement("div");
  const keys = document.createElement("dt");
  for (const key of element.dataset.key.split(" ")) {
    const cap = document.createElement("kbd");
    cap.textContent = key;
    keys.append(cap, " ");
  }
  const words = document.createElement("dd");
  words.textContent = element.dataset.keyLabel ?? element.textContent.trim();
  row.append(keys, words);
  return row;
}

function list() {
  const dialog = document.getElementById("shortcuts");
  if (!dialog || dialog.open) return;
  const seen = new Set();
  const elements = [...document.querySelectorAll("[data-key]")].filter((e) => !seen.has(e.dataset.key) && seen.add(e.dataset.key));
  dialog.querySelector("dl").replaceChildren(...elements.map(line));
  dialog.showModal();
}

document.addEventListener("keydown", press);
for (const button of document.querySelectorAll("[data-shortcuts-open]")) {
  button.hidden = false;
  button.addEventListener("click", list);
}
const toggle = document.querySelector("[data-shortcuts-toggle]");
if (toggle) {
  toggle.checked = on();
  toggle.addEventListener("change", () => (toggle.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
}

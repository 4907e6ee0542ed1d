// Keyboard: an element names its own key with data-key="a"; "g i" style keys are two presses. ? lists all of this page.
// data-key-anywhere: it also works while its menu is closed.
import { places } from "./rows.js";

let pending = "";
let timer = 0;
const OFF = "wfdash_shortcuts_off";
const on = () => localStorage.getItem(OFF) === null;

const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
const typing = (element) => element.closest(FIELDS) !== null;

function find(keys) {
  const all = [...document.querySelectorAll(`[data-key="${CSS.escape(keys)}"]`)];
  return all.find((element) => (element.checkVisibility() || "keyAnywhere" in element.dataset) && !element.disabled && !element.closest("[inert]"));
}

// data-key-twice: the first press only points at the button, so that no single key decides anything, except where
// data-one-press says that every answer can be taken back.
function act(element) {
  const twice = "keyTwice" in element.dataset && !element.closest("[data-one-press]");
  if (twice && document.activeElement !== element) return ask(element);
  if (element.matches("input:not([type=radio], [type=checkbox]), textarea, select") || "keyFocus" in element.dataset) element.focus();
  else element.click();
}

// Nothing scrolls: what one reads stays in sight, and a hint beside the button says what the next press does.
function ask(element) {
  element.focus({ preventScroll: true });
  const hint = document.createElement("div");
  hint.className = "key-hint";
  hint.setAttribute("role", "status");
  document.body.append(hint);
  hint.textContent = `Press ${element.dataset.key} again: ${element.dataset.keyLabel}`;
  const { left, top, bottom } = element.getBoundingClientRect();
  const shown = bottom > 0 && top < innerHeight;
  hint.style.left = `${Math.max(8, Math.min(left, innerWidth - hint.offsetWidth - 8))}px`;
  hint.style.top = `${shown ? Math.max(8, top - hint.offsetHeight - 8) : innerHeight - hint.offsetHeight - 16}px`;
  element.addEventListener("blur", () => hint.remove(), { once: true });
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
  // A key that is held down decides once.
  if (!event.repeat) act(element);
}

function line([keys, words]) {
  const row = document.createElement("div");
  const caps = document.createElement("dt");
  for (const key of keys.split(" ")) {
    const cap = document.createElement("kbd");
    cap.textContent = key;
    caps.append(cap, " ");
  }
  const meaning = document.createElement("dd");
  meaning.textContent = words;
  row.append(caps, meaning);
  return row;
}

// What is on this page and not disabled, each key once; then what every page knows.
function known() {
  const keys = new Map();
  for (const element of document.querySelectorAll("[data-key]:not(:disabled)")) {
    if (!keys.has(element.dataset.key)) keys.set(element.dataset.key, element.dataset.keyLabel ?? element.textContent.trim());
  }
  const rest = places().length ? [["j", "Next row"], ["k", "Previous row"]] : [];
  const sends = document.getElementById("answer-form") ? [["Ctrl ⏎", "Send what you are typing"]] : [];
  for (const [key, words] of [...rest, ...sends, ["Esc", "Close what is open, or leave field"], ["?", "Show keyboard shortcuts"]]) if (!keys.has(key)) keys.set(key, words);
  return [...keys];
}

function list() {
  const dialog = document.getElementById("shortcuts");
  if (!dialog || dialog.open) return;
  dialog.querySelector("dl").replaceChildren(...known().map(line));
  dialog.showModal();
}

document.addEventListener("keydown", press);
function reveal() {
  for (const button of document.querySelectorAll("[data-shortcuts-open]")) button.hidden = false;
}

document.addEventListener("click", (event) => { if (event.target.closest?.("[data-shortcuts-open]")) list(); });
document.addEventListener("htmx:after:swap", reveal);
reveal();
const toggle = document.querySelector("[data-shortcuts-toggle]");
if (toggle) {
  toggle.checked = on();
  toggle.addEventListener("change", () => (toggle.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
}

// Keyboard: an element names its own key with data-key="a"; "g i" style keys are two presses. ? lists all of this page.
// data-key-anywhere: it also works while its menu is closed.
import { foldOf, openSheet, unfold } from "./form.js";
import { places } from "./rows.js";
import { hint } from "./toast.js";

// A key decides nothing within so many milliseconds after another one, or after a card was shown.
const QUIET = 400;
let pressedAt = performance.now();
let pending = "";
let timer = 0;
const OFF = "wfdash_shortcuts_off";
const on = () => localStorage.getItem(OFF) === null;

const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
const typing = (element) => element.closest(FIELDS) !== null;

function find(keys) {
  const all = [...document.querySelectorAll(`[data-key="${CSS.escape(keys)}"]`)];
  return all.find((element) => (element.checkVisibility() || "keyAnywhere" in element.dataset || foldOf(element)?.checkVisibility()) && !element.disabled && !element.closest("[inert]"));
}

// data-key-twice: the first press only points at the button, so that no single key decides anything, except where
// data-one-press says that every answer can be taken back. Nothing scrolls: what one reads stays in sight.
function act(element) {
  // What was behind More has not been seen: this press shows it.
  const twice = unfold(element) || ("keyTwice" in element.dataset && !element.closest("[data-one-press]"));
  const restored = element.matches("summary") && element.closest("details[open]");
  if (twice && document.activeElement !== element) {
    element.focus({ preventScroll: true });
    hint(`Press ${element.dataset.key} again: ${element.dataset.keyLabel}`, element);
  } else if (restored) restored.querySelector("input:not([type=hidden]), textarea, select")?.focus();
  else if (element.matches("input:not([type=radio], [type=checkbox]), textarea, select") || "keyFocus" in element.dataset) element.focus();
  else element.click();
}

// Why a key that sends something, or leads away from a card (data-key-rests), rests: it may be part of what one writes,
// or meant for the card before.
function reason(element, early) {
  if (early && "keyRests" in element.dataset) return `Not while you type. Press ${element.dataset.key} again`;
  if (!element.matches("button:not([type=button])")) return "";
  const decides = "keyTwice" in element.dataset;
  const errors = [...document.querySelectorAll("[data-swap=card] [role=alert]")];
  if (decides && document.querySelector(".dock details.action[open]")) return "No key decides while this is open. Esc closes it";
  if (errors.some((error) => error.checkVisibility())) return "After an error no key decides. Press the button";
  return decides && early && document.activeElement !== element ? `Not while you type, nor on a card that has just opened. Press ${element.dataset.key} again` : "";
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const early = performance.now() - pressedAt < QUIET;
  // "a" and a space, in one go, are a word.
  if (early && (event.key === " " || event.key === "Enter") && event.target.matches?.("[data-key-twice]")) event.preventDefault();
  if (event.key.length !== 1) return;
  pressedAt = performance.now();
  if (typing(event.target) || document.querySelector("dialog[open], [data-sending]")) return;
  const sheet = openSheet();
  if (sheet) return event.key !== " " && on() && hint("Keys do nothing while this is open. Esc closes it", sheet);
  if (event.key === "?") return list();
  if (!on()) return;
  const keys = pending ? `${pending} ${event.key}` : event.key;
  clearTimeout(timer);
  const starts = [...document.querySelectorAll("[data-key]")].some((e) => e.dataset.key.startsWith(`${keys} `));
  pending = starts ? keys : "";
  timer = setTimeout(() => { pending = ""; }, 900);
  const element = find(keys);
  const menu = document.querySelector(".menu-panel:popover-open");
  if (!element || (menu && !menu.contains(element))) return;
  event.preventDefault();
  // A key that is held down decides once.
  if (event.repeat) return;
  const why = reason(element, early);
  if (why) hint(why, element);
  else act(element);
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
document.addEventListener("card:shown", () => { pressedAt = performance.now(); });
function reveal() {
  for (const button of document.querySelectorAll("[data-shortcuts-open]")) button.hidden = false;
}

document.addEventListener("click", ({ target }) => {
  if (target.closest?.("[data-shortcuts-open]")) list();
  const end = target.closest?.("[data-end]");
  if (end) hint(end.dataset.end, end);
});
document.addEventListener("htmx:after:swap", reveal);
reveal();
const toggle = document.querySelector("[data-shortcuts-toggle]");
if (toggle) {
  toggle.checked = on();
  toggle.addEventListener("change", () => (toggle.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
}

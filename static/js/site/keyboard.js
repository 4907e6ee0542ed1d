// On every page: moves through a list by j and k, ticks rows by x, leaves by Escape what [data-leave] leads out of.
// Other keys belong to their elements.
import { closeSheet, openSheet } from "./form.js";
import { places } from "./rows.js";
import { hint } from "./toast.js";

const OFF = "wfdash_shortcuts_off";
const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

function move(step) {
  const all = places();
  if (!all.length) return false;
  const row = document.activeElement?.closest("[data-nav-row], tbody tr");
  const at = all.findIndex((element) => element === document.activeElement || row?.contains(element));
  const here = at < 0 ? all.findIndex((element) => element.hasAttribute("aria-current")) : at;
  const next = here < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + step));
  if (!opens(all[next])) {
    all[next].focus({ preventScroll: true });
    all[next].scrollIntoView({ block: "nearest" });
  } else if (next !== here) all[next].click();
  if (next === here) hint(`This is the ${step > 0 ? "last" : "first"} of ${all.length}${document.querySelector(".page-links") ? " on this page" : ""}`, all[next]);
  return true;
}

// In the inbox a row opens beside the list, where there is room for both.
const opens = (row) => row.closest("#inbox-list") && document.querySelector(".inbox-card")?.checkVisibility();

// The list of the inbox is one stop for Tab: arrows move within it, up and down to other rows, sideways to a row's tick.
const parts = (name) => [...document.querySelectorAll(`#inbox-list [data-row] ${name}`)];
const LINK = "[data-nav]";
const TICK = ".row-tick input";

function rove(element = document.activeElement) {
  const rows = parts(LINK);
  const all = [...rows, ...parts(TICK)];
  const stop = all.includes(element) ? element : rows.find((row) => row.hasAttribute("aria-current")) ?? rows[0];
  for (const one of all) one.tabIndex = one === stop ? 0 : -1;
}

function arrow(step) {
  const here = document.activeElement;
  const alike = here?.matches(`#inbox-list ${TICK}`) ? parts(TICK) : parts(LINK);
  const at = alike.indexOf(here);
  if (at < 0) return false;
  alike[Math.min(alike.length - 1, Math.max(0, at + step))].focus();
  return true;
}

function aside(name) {
  const part = document.activeElement?.closest("#inbox-list [data-row]")?.querySelector(name);
  part?.focus();
  return Boolean(part);
}

rove();
document.addEventListener("focusin", (event) => event.target.closest("#inbox-list") && rove(event.target));
for (const shown of ["htmx:after:swap", "list:shown"]) document.addEventListener(shown, () => rove());

// Ctrl+Enter sends what one types in: the action whose form is open, or a form with one button to send it.
function sendForm(field) {
  const { form } = field;
  const panel = field.closest("details.action");
  const buttons = [...(panel ?? form)?.querySelectorAll("button:not([type=button], [hidden], [formaction], :disabled)") ?? []];
  const choices = buttons.filter((button) => button.name === "_action" || !["_add", "_remove", "_up", "_down", "_show", "_mode"].includes(button.name));
  const button = panel ? choices.find((one) => one.name === "_action") : choices.length === 1 ? choices[0] : choices.find((one) => one.classList.contains("primary") && one.name !== "_action");
  if (!form || !button) return false;
  form.requestSubmit(button);
  return true;
}

function tick() {
  const row = document.activeElement?.closest("[data-nav-row], tbody tr") ?? document.querySelector("#inbox-list .is-here");
  const box = row?.querySelector("input[type=checkbox]");
  box?.click();
  return Boolean(box);
}

const KEYS = { j: () => move(1), k: () => move(-1), x: (held) => !held && tick(), ArrowDown: () => arrow(1), ArrowUp: () => arrow(-1), ArrowLeft: () => aside(TICK), ArrowRight: () => aside(LINK) };

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form && !event.isComposing) {
    if (sendForm(event.target)) event.preventDefault();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (document.querySelector("dialog[open], .menu-panel:popover-open")) return;
  const typing = event.target.closest?.(FIELDS);
  if (event.key === "Escape") {
    if ((!typing || typing.closest(".sheet")) && closeSheet()) return;
    if (typing) typing.blur();
    else document.querySelector("[data-leave]")?.click();
    return;
  }
  if (typing || openSheet() || (localStorage.getItem(OFF) !== null && !event.key.startsWith("Arrow"))) return;
  if (KEYS[event.key]?.(event.repeat)) event.preventDefault();
});

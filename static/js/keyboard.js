// On every page: moves through a list by j and k, ticks rows by x, leaves by Escape what [data-leave] leads out of.
// Other keys belong to their elements.
import { places } from "./rows.js";

const OFF = "wfdash_shortcuts_off";
const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

function move(step) {
  const all = places();
  if (!all.length) return false;
  const row = document.activeElement?.closest("[data-nav-row], tbody tr");
  const at = all.findIndex((element) => element === document.activeElement || row?.contains(element));
  const here = at < 0 ? all.findIndex((element) => element.hasAttribute("aria-current")) : at;
  const next = here < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + step));
  all[next].focus();
  all[next].scrollIntoView({ block: "nearest" });
  return true;
}

function tick() {
  const box = document.activeElement?.closest("[data-nav-row], tbody tr")?.querySelector("input[type=checkbox]");
  box?.click();
  return Boolean(box);
}

const KEYS = { j: () => move(1), k: () => move(-1), x: tick };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.(FIELDS);
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else document.querySelector("[data-leave]")?.click();
    return;
  }
  if (typing || localStorage.getItem(OFF) !== null) return;
  if (KEYS[event.key]?.()) event.preventDefault();
});

// Menus are popovers: they open, close and take the focus back without this. It moves through them by arrows, closes
// those that the focus has left, and places them where the browser cannot.
const PLACED = CSS.supports("position-area: block-end");
const GAP = 6;
const open = () => document.querySelector(".menu-panel:popover-open");
const buttonOf = (panel) => document.querySelector(`[popovertarget="${CSS.escape(panel.id)}"]`);
const itemsOf = (panel) => [...panel.querySelectorAll("a[href], button, input:not([type=hidden]), select")].filter((item) => !item.disabled && item.checkVisibility());

function move(panel, key) {
  const items = itemsOf(panel);
  const at = items.indexOf(document.activeElement);
  const next = { ArrowDown: at + 1, ArrowUp: at < 0 ? items.length - 1 : at - 1, Home: 0, End: items.length - 1 }[key];
  items.at(next % items.length)?.focus();
}

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const panel = open();
  if (key === "Escape" && panel) {
    event.preventDefault(); // this press has done its work: nothing else is left by it
    panel.hidePopover();
    return buttonOf(panel)?.focus();
  }
  const button = target.closest?.("[popovertarget]");
  const here = button ? document.getElementById(button.getAttribute("popovertarget")) : target.closest?.(".menu-panel");
  const writes = target.matches?.("input:not([type=checkbox]), select, textarea");
  if (!here || writes || !["ArrowDown", "ArrowUp", "Home", "End"].includes(key)) return;
  if (button && !key.startsWith("Arrow")) return;
  event.preventDefault();
  if (!here.matches(":popover-open")) button.click();
  move(here, key);
});

document.addEventListener("focusout", ({ target, relatedTarget }) => {
  const panel = target.closest?.(".menu-panel:popover-open");
  if (panel && relatedTarget && !panel.contains(relatedTarget) && relatedTarget !== buttonOf(panel)) panel.hidePopover();
});

// Below its button, or above where there is more room, and within the window.
function place(panel) {
  const { left, top, bottom } = buttonOf(panel).getBoundingClientRect();
  const below = innerHeight - bottom > top;
  const across = Math.max(GAP, Math.min(left, innerWidth - panel.offsetWidth - GAP));
  Object.assign(panel.style, {
    margin: "0", inset: below ? `${bottom + GAP}px auto auto ${across}px` : `auto auto ${innerHeight - top + GAP}px ${across}px`,
    maxHeight: `${(below ? innerHeight - bottom : top) - 2 * GAP}px`, positionArea: "none", positionTryFallbacks: "none",
  });
}

if (!PLACED) {
  document.addEventListener("toggle", ({ target, newState }) => {
    if (!target.matches(".menu-panel")) return;
    if (newState === "open") place(target);
    else target.removeAttribute("style");
  }, true);
  for (const moved of ["scroll", "resize"]) addEventListener(moved, () => open() && place(open()), { capture: true, passive: true });
}

// What a menu holds may come once it is open: the focus was on what has gone.
document.addEventListener("htmx:after:swap", () => {
  const panel = open();
  if (!panel) return;
  if (document.activeElement === document.body) itemsOf(panel)[0]?.focus();
  if (!PLACED) place(panel);
});

// Tabs that do not fit scroll sideways: begin with the current one in view.
for (const tab of document.querySelectorAll(".tabs > [aria-current]")) {
  const tabs = tab.parentElement.getBoundingClientRect();
  const here = tab.getBoundingClientRect();
  if (here.left < tabs.left || here.right > tabs.right) tab.parentElement.scrollLeft += here.left - tabs.left - (tabs.width - here.width) / 2;
}

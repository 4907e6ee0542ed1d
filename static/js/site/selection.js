// Checkboxes of a list: one selects all of them; a click with shift, or Shift+Space in a row, selects everything since
// the last one; Escape clears. What is selected stays so when the list is shown again.
// selection(boxes, all, show): selectors of the checkboxes and of the one for all; show(n) is called with how many are selected.
const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

export function selection(selector, selectorOfAll, show) {
  const boxes = () => [...document.querySelectorAll(selector)];
  const all = () => document.querySelector(selectorOfAll);
  let last = null;
  let kept = new Set();

  function count() {
    const selected = boxes().filter((box) => box.checked);
    kept = new Set(selected.map((box) => box.value));
    if (all()) {
      all().checked = selected.length > 0 && selected.length === boxes().length;
      all().indeterminate = selected.length > 0 && selected.length < boxes().length;
    }
    show(selected.length);
  }

  function begin() {
    all()?.closest("[hidden]")?.removeAttribute("hidden");
    last = null;
    count();
  }

  function again() {
    for (const box of boxes()) box.checked ||= kept.has(box.value);
    begin();
  }

  function clear() {
    for (const box of boxes()) box.checked = false;
    last = null;
    count();
  }

  function extend(box, checked) {
    const list = boxes();
    const [from, to] = [list.indexOf(last ?? box), list.indexOf(box)].sort((a, b) => a - b);
    for (const one of list.slice(Math.max(from, 0), to + 1)) one.checked = checked;
  }

  document.addEventListener("change", (event) => {
    if (event.target === all()) for (const box of boxes()) box.checked = all().checked;
    if (event.target === all() || event.target.matches?.(selector)) count();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-clear]")) return clear();
    const box = event.target.closest?.(selector);
    if (!box) return;
    if (event.shiftKey && last) extend(box, box.checked);
    last = box;
    count();
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest?.(FIELDS) || document.querySelector("dialog[open], .menu-panel:popover-open")) return;
    const box = document.activeElement?.closest("tr, li")?.querySelector(selector);
    if (event.key === " " && event.shiftKey && box) {
      extend(box, true);
      last = box;
      count();
      event.preventDefault();
    } else if (event.key === "Escape" && kept.size) {
      clear();
      event.preventDefault();
    }
  }, true);
  document.addEventListener("list:shown", again);
  addEventListener("pageshow", begin);
  begin();
}

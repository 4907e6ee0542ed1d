// Checkboxes of a list: one selects all of them, and with shift a click selects everything since the last one.
// selection(boxes, all, show): selectors of the checkboxes and of the one for all; show(n) is called with how many are selected.
export function selection(selector, selectorOfAll, show) {
  const boxes = () => [...document.querySelectorAll(selector)];
  const all = () => document.querySelector(selectorOfAll);
  let last = null;

  function count() {
    const selected = boxes().filter((box) => box.checked).length;
    if (all()) {
      all().checked = selected > 0 && selected === boxes().length;
      all().indeterminate = selected > 0 && selected < boxes().length;
    }
    show(selected);
  }

  function begin() {
    all()?.closest("[hidden]")?.removeAttribute("hidden");
    last = null;
    count();
  }

  document.addEventListener("change", (event) => {
    if (event.target === all()) for (const box of boxes()) box.checked = all().checked;
    if (event.target === all() || event.target.matches?.(selector)) count();
  });
  document.addEventListener("click", (event) => {
    const box = event.target.closest?.(selector);
    if (!box) return;
    const list = boxes();
    if (event.shiftKey && last) {
      const [from, to] = [list.indexOf(last), list.indexOf(box)].sort((a, b) => a - b);
      for (const one of list.slice(from, to + 1)) one.checked = box.checked;
    }
    last = box;
    count();
  });
  document.addEventListener("list:shown", begin);
  addEventListener("pageshow", begin);
  begin();
}

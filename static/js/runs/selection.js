// Says how many runs are ticked, ticks all, and with shift everything between two ticks.
const boxes = () => [...document.querySelectorAll('[data-ticks] input[name="run"]')];
const all = () => document.querySelector("[data-ticks] [data-tick-all]");
let last = null;

function count() {
  const ticked = boxes().filter((box) => box.checked).length;
  const button = document.querySelector("[data-ticks] [data-ticked]");
  if (button) {
    button.textContent = ticked ? `Apply to ${ticked} selected…` : "Apply to selected…";
    button.disabled = !ticked;
  }
  if (all()) {
    all().checked = ticked > 0 && ticked === boxes().length;
    all().indeterminate = ticked > 0 && ticked < boxes().length;
  }
}

function begin() {
  const box = all();
  if (box) box.closest("[hidden]")?.removeAttribute("hidden");
  last = null;
  count();
}

document.addEventListener("change", (event) => {
  if (event.target === all()) for (const box of boxes()) box.checked = all().checked;
  if (event.target.closest?.("[data-ticks]")) count();
});
document.addEventListener("click", (event) => {
  const box = event.target.closest?.('[data-ticks] input[name="run"]');
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

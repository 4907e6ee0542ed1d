// Counts what is ticked, ticks all, and asks nothing: an answer can be undone.
const boxes = () => [...document.querySelectorAll('[data-batch] input[name="tick"]')];
const all = document.querySelector("[data-tick-all]");
const words = document.querySelector("[data-ticked]");

function count() {
  const ticked = boxes().filter((box) => box.checked).length;
  if (words) words.textContent = ticked ? `${ticked} selected` : "None selected";
  if (all) {
    all.checked = ticked === boxes().length && ticked > 0;
    all.indeterminate = ticked > 0 && ticked < boxes().length;
  }
  for (const button of document.querySelectorAll("#answer-form .button[name=_action]")) button.setAttribute("aria-disabled", String(!ticked));
}

if (all) {
  all.closest("[hidden]").hidden = false;
  document.querySelector("[data-tick-link]").hidden = true;
  all.addEventListener("change", () => {
    for (const box of boxes()) box.checked = all.checked;
    count();
  });
}
// With shift, everything between two ticks.
let last = null;
document.addEventListener("click", (event) => {
  const box = event.target.closest?.('[data-batch] input[name="tick"]');
  if (!box) return;
  const list = boxes();
  if (event.shiftKey && last) {
    const [from, to] = [list.indexOf(last), list.indexOf(box)].sort((a, b) => a - b);
    for (const one of list.slice(from, to + 1)) one.checked = box.checked;
  }
  last = box;
  count();
});
count();

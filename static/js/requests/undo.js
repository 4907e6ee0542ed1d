// Counts down to the moment an answer takes effect: [data-left] holds the seconds that were left when the page was made.
const ends = new WeakMap();

function endOf(element) {
  const known = ends.get(element);
  if (known?.left === element.dataset.left) return known.at;
  const at = performance.now() + Number(element.dataset.left) * 1000;
  ends.set(element, { left: element.dataset.left, at });
  return at;
}

function tick() {
  for (const element of document.querySelectorAll("[data-left]")) {
    const left = (endOf(element) - performance.now()) / 1000;
    const bar = element.closest("[data-undo-bar]");
    const words = `${Math.max(0, Math.ceil(left))} s`;
    if (element.textContent !== words) element.textContent = words;
    const progress = bar?.querySelector("[data-left-bar]");
    if (progress) progress.value = Math.max(0, left);
    if (left <= 0 && bar) finish(bar);
  }
}

function finish(bar) {
  if (bar.contains(document.activeElement)) document.getElementById("main")?.focus({ preventScroll: true });
  bar.remove();
}

function reveal() {
  for (const button of document.querySelectorAll("[data-undo-close]")) button.hidden = false;
  tick();
}

document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-undo-close]")) finish(event.target.closest("[data-undo-bar]"));
});
document.addEventListener("htmx:after:swap", reveal);
reveal();
setInterval(tick, 200);

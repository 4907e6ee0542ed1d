// Says how many runs are selected, in a bar that is there only while some are.
import { selection } from "../site/selection.js";

const countOfAll = () => document.querySelector("#runs-tabs [aria-current=page] .tab-count")?.textContent ?? "";

function show(selected) {
  const bar = document.querySelector("[data-selection]");
  if (!bar) return;
  const everything = bar.querySelector("[name=all]");
  if (!selected) everything.checked = false;
  const words = everything.checked ? "All selected" : selected ? `${selected} selected` : "";
  bar.classList.toggle("is-open", selected > 0);
  for (const place of document.querySelectorAll("[data-ticks] [data-ticked]")) if (place.textContent !== words) place.textContent = words;
  bar.querySelector("[data-all-count]").textContent = countOfAll() ? ` (${countOfAll()})` : "";
}

const selected = () => document.querySelectorAll('[data-ticks] input[name="run"]:checked').length;

selection('[data-ticks] input[name="run"]', "[data-ticks] [data-tick-all]", show);
document.addEventListener("change", (event) => {
  if (event.target.matches?.("[data-selection] [name=all]")) show(selected());
});

// Says how many runs are selected.
import { selection } from "../site/selection.js";

selection('[data-ticks] input[name="run"]', "[data-ticks] [data-tick-all]", (selected) => {
  const button = document.querySelector("[data-ticks] [data-ticked]");
  if (!button) return;
  button.textContent = selected ? `Apply to ${selected} selected…` : "Apply to selected…";
  button.disabled = !selected;
});

// Counts the selected requests and asks nothing: an answer can be undone.
import { selection } from "../site/selection.js";

selection('[data-batch] input[name="tick"]', "[data-tick-all]", (selected) => {
  const words = selected ? `${selected} selected` : "None selected";
  for (const place of document.querySelectorAll("[data-ticked], .batch-decision .dock-note")) place.textContent = words;
  for (const link of document.querySelectorAll("[data-tick-link]")) link.hidden = true;
  for (const button of document.querySelectorAll("#answer-form .button[name=_action]")) button.setAttribute("aria-disabled", String(!selected));
});

// Counts the selected requests and asks nothing: an answer can be undone.
import { selection } from "../site/selection.js";

const link = document.querySelector("[data-tick-link]");
if (link) link.hidden = true;
selection('[data-batch] input[name="tick"]', "[data-tick-all]", (selected) => {
  const words = document.querySelector("[data-ticked]");
  if (words) words.textContent = selected ? `${selected} selected` : "None selected";
  for (const button of document.querySelectorAll("#answer-form .button[name=_action]")) button.setAttribute("aria-disabled", String(!selected));
});

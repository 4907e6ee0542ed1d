// Rows of the inbox that are selected, and a bar over the list that is there while some are.
import { selection } from "../site/selection.js";

selection('#inbox-list input[name="request"]', "#inbox-list [data-select-all]", (selected) => {
  for (const button of document.querySelectorAll("#inbox-chosen [data-clear]")) button.hidden = false;
  for (const place of document.querySelectorAll("#inbox-chosen [data-count]")) place.textContent = selected || "";
  const words = selected ? `${selected} selected` : "";
  for (const place of document.querySelectorAll("#inbox-list [data-chosen]")) if (place.textContent !== words) place.textContent = words;
});

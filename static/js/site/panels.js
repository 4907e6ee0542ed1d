// Keeps a person's place when a panel is renewed: what they opened stays open, a form they typed in is not touched.
document.addEventListener("input", (event) => {
  const form = event.target.closest("form");
  if (form) form.dataset.typed = "";
});

window.htmx?.registerExtension("keep-place", {
  htmx_before_morph_attr: (element, detail) => !(detail.attrName === "open" && element.matches("details, dialog")),
  htmx_before_morph_node: (element) => !(element.matches?.("form") && "typed" in element.dataset),
});

// The count of open requests in the navigation follows whichever panel was renewed last.
document.addEventListener("htmx:after:swap", () => {
  const now = document.querySelector("[data-open-now]")?.dataset.openNow;
  for (const badge of document.querySelectorAll("[data-open-count]")) {
    if (now === undefined) continue;
    badge.textContent = now;
    badge.hidden = now === "0";
  }
});

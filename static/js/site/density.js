// How dense the rows of lists are: applied at once and sent to the server, which remembers it. Without script the
// buttons send the form.
document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-density]");
  const chosen = event.submitter?.value;
  if (!form || !chosen) return;
  event.preventDefault();
  const body = new FormData(form, event.submitter);
  for (const list of document.querySelectorAll(".list-page")) {
    list.classList.toggle("compact", chosen === "compact");
    list.classList.toggle("comfortable", chosen === "comfortable");
  }
  for (const button of form.querySelectorAll("[name=density]")) button.setAttribute("aria-pressed", String(button.value === chosen));
  fetch(form.action, { method: "POST", body, redirect: "manual" }).catch(() => {});
});

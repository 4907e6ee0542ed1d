// <button data-copy-from="address"> copies what is there; without a clipboard (plain HTTP) it selects nothing and says so.
for (const button of document.querySelectorAll("[data-copy-from]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  const words = button.querySelector("[data-copy-words]") ?? button;
  const said = words.textContent;
  button.addEventListener("click", async () => {
    try {
      const answer = await fetch(button.dataset.copyFrom);
      if (!answer.ok) throw new Error(String(answer.status));
      await navigator.clipboard.writeText(await answer.text());
      words.textContent = "Copied";
    } catch {
      words.textContent = "Copy failed";
    }
    setTimeout(() => { words.textContent = said; }, 2_000);
  });
}

// An event's address: the link in its fold can be copied with one press.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-copy-link]");
  if (!link || !navigator.clipboard) return;
  event.preventDefault();
  await navigator.clipboard.writeText(new URL(link.dataset.copyLink, location.href).href).catch(() => {});
  link.textContent = "Copied";
});

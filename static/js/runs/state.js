// Opens large parts of a value when they are opened: <details data-lazy="address"> and <a data-more="address">.
async function rowsOf(address) {
  const url = new URL(address, location.href);
  url.searchParams.set("fragment", "node");
  const answer = await fetch(url, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(String(answer.status));
  const template = document.createElement("template");
  template.innerHTML = await answer.text();
  return template.content.firstElementChild;
}

document.addEventListener("toggle", async (event) => {
  const fold = event.target;
  if (!(fold instanceof HTMLDetailsElement) || !fold.open || !fold.dataset.lazy) return;
  const address = fold.dataset.lazy;
  delete fold.dataset.lazy;
  try {
    const rows = await rowsOf(address);
    fold.querySelector(":scope > p")?.replaceWith(rows);
  } catch {
    fold.dataset.lazy = address; // the link inside still leads there
  }
}, true);

document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-tree] a[data-more]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  try {
    const rows = await rowsOf(link.dataset.more);
    link.closest("li").replaceWith(...rows.children);
  } catch {
    location.assign(link.href);
  }
});

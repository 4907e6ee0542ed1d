// Keeps the list of runs true without moving what one reads: cells change in place, new runs wait behind a button.
const EVERY = 1500;
const list = () => document.getElementById("runs-list");
const rowsIn = (root) => [...root.querySelectorAll("tr[data-row]")];
let last = 0;
let waiting = 0;

const address = (extra) => {
  const url = new URL(list().dataset.address, location.href);
  url.searchParams.set("columns", list().dataset.columns || "none");
  for (const [name, value] of Object.entries(extra)) url.searchParams.set(name, value);
  return url;
};

async function read(url) {
  const answer = await fetch(url, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(`the list answered ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Tick and link stay, and with them whoever has them in focus; of the cells only those that say something else change.
function renew(row, fresh) {
  for (const cell of row.querySelectorAll("[data-cell]")) {
    const now = fresh.querySelector(`[data-cell="${cell.dataset.cell}"]`);
    if (now && now.innerHTML !== cell.innerHTML && !cell.contains(document.activeElement)) cell.replaceChildren(...document.importNode(now, true).childNodes);
  }
}

function offer(number, most) {
  const button = list().querySelector("[data-new]");
  if (!button || "paged" in list().dataset) return;
  button.hidden = number === 0;
  button.querySelector("span").textContent = `Show ${number >= most ? `${most}+` : number} new ${number === 1 ? "run" : "runs"}`;
}

async function look() {
  last = Date.now();
  const shown = rowsIn(list());
  const ids = shown.map((row) => row.dataset.row).join(",");
  const news = (await read(address({ fragment: "news", since: list().dataset.asof, ids }))).querySelector("[data-news]");
  if (!news) return;
  const fresh = new Map(rowsIn(news).map((row) => [row.dataset.row, row]));
  for (const row of shown) {
    if (fresh.has(row.dataset.row)) renew(row, fresh.get(row.dataset.row));
    else row.classList.add("is-gone");
  }
  offer(Number(news.dataset.new), Number(news.dataset.most));
  list().dataset.openNow = news.dataset.openNow;
  document.dispatchEvent(new CustomEvent("htmx:after:swap"));
}

async function show(event) {
  event.preventDefault();
  const known = new Set(rowsIn(list()).map((row) => row.dataset.row));
  const fresh = (await read(address({ fragment: "list" }))).getElementById("runs-list");
  list().replaceWith(document.importNode(fresh, true));
  const news = rowsIn(list()).filter((row) => !known.has(row.dataset.row));
  for (const row of news) row.classList.add("is-fresh");
  document.dispatchEvent(new CustomEvent("runs:shown"));
  (news[0] ?? rowsIn(list())[0])?.querySelector("[data-nav]").focus();
}

function stir() {
  clearTimeout(waiting);
  waiting = setTimeout(() => look().catch(() => {}), Math.max(0, last + EVERY - Date.now()));
}

document.body.addEventListener("live:changed", (event) => { if (list() && !("flawed" in list().dataset) && event.detail.what.includes("runs")) stir(); });
document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-new]")) show(event).catch(() => location.reload());
});

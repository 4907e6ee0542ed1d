// Keeps a list current without moving what one reads: rows change in place, new ones wait behind a button.
// <div data-live-list="runs" data-noun="run" data-address="…" data-asof="…"> holds the list and names what live:changed
// calls it. Of a row ([data-row]) the parts marked [data-cell] change; of the page those marked [data-renew], by their
// id. data-gone: what a row says that is not in the list any more. The address answers ?fragment=news and =list.
import { counted } from "./time.js";

const EVERY = 1500;
const RECOUNT = 15_000;
const LIST = "[data-live-list]";
const list = () => document.querySelector(LIST);
const rowsIn = (root) => [...root.querySelectorAll("[data-row]")];
let last = 0;
let waiting = 0;
let recounted = Date.now();

async function read(extra) {
  const url = new URL(list().dataset.address, location.href);
  for (const [name, value] of Object.entries(extra)) url.searchParams.set(name, value);
  const answer = await fetch(url, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(`the list answered ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Links and checkboxes stay, and with them the keyboard focus; only changed cells are replaced.
function renew(row, fresh) {
  if (fresh.classList.contains("is-gone")) keepHeight(row);
  const kept = ["is-here", "is-fresh"].filter((name) => row.classList.contains(name));
  row.className = fresh.className;
  row.classList.add(...kept);
  for (const cell of row.querySelectorAll("[data-cell]")) {
    const now = fresh.querySelector(`[data-cell="${cell.dataset.cell}"]`);
    const typing = cell !== document.activeElement && cell.contains(document.activeElement);
    if (now && now.innerHTML !== cell.innerHTML && !typing) cell.replaceChildren(...document.importNode(now, true).childNodes);
  }
}

// What became of a row may be said in fewer lines than what it was.
const keepHeight = (row) => { row.style.minHeight = `${row.offsetHeight}px`; };

function fade(row) {
  keepHeight(row);
  row.classList.add("is-gone");
  const meta = row.querySelector(".row-meta");
  if (!list().dataset.gone || !meta || row.querySelector(".row-gone")) return;
  meta.append(Object.assign(document.createElement("span"), { className: "row-gone", textContent: list().dataset.gone }));
}

function offer(number, most = Infinity) {
  const button = list().querySelector("[data-new]");
  if (!button) return number && show();
  if ("paged" in list().dataset) return;
  button.hidden = number === 0;
  const { noun } = list().dataset;
  button.querySelector("span").textContent = `Show ${number >= most ? `${most}+ new ${noun}s` : counted(number, `new ${noun}`)}`;
}

async function look() {
  last = Date.now();
  const { asof, whole } = list().dataset;
  const shown = rowsIn(list());
  const ids = shown.map((row) => row.dataset.row).join(",");
  const news = (await read({ fragment: "news", since: asof, ids, ...(whole ? { whole } : {}) })).querySelector("[data-news]");
  if (!news) return;
  const fresh = new Map(rowsIn(news).map((row) => [row.dataset.row, row]));
  for (const row of shown) {
    if (!row.isConnected) continue;
    if (fresh.has(row.dataset.row)) renew(row, fresh.get(row.dataset.row));
    else fade(row);
  }
  for (const part of news.querySelectorAll("[data-renew]")) {
    const old = document.getElementById(part.id);
    if (old && !old.contains(document.activeElement)) old.replaceWith(document.importNode(part, true));
  }
  list().dataset.openNow = news.dataset.openNow;
  recount();
  offer(Number(news.dataset.new), Number(news.dataset.most ?? Infinity));
  document.dispatchEvent(new CustomEvent("htmx:after:swap"));
}

// What saved views hold is counted less often: each is a list of its own.
function recount() {
  if (Date.now() - recounted < RECOUNT) return;
  recounted = Date.now();
  document.querySelector("[data-view-counts]")?.dispatchEvent(new CustomEvent("views:moved"));
}

async function show(event) {
  event?.preventDefault();
  const known = new Set(rowsIn(list()).map((row) => row.dataset.row));
  const fresh = (await read({ fragment: "list" })).querySelector(LIST);
  const open = list().querySelector("[aria-current=true][data-nav]")?.closest("[data-row]")?.dataset.row;
  list().replaceWith(document.importNode(fresh, true));
  if (open) document.querySelector(`[data-row="${CSS.escape(open)}"] [data-nav]`)?.setAttribute("aria-current", "true");
  const added = rowsIn(list()).filter((row) => !known.has(row.dataset.row));
  for (const row of added) row.classList.add("is-fresh");
  document.dispatchEvent(new CustomEvent("list:shown"));
  if (event) (added[0] ?? rowsIn(list())[0])?.querySelector("[data-nav]").focus();
}

function stir() {
  clearTimeout(waiting);
  waiting = setTimeout(() => look().catch(() => {}), Math.max(0, last + EVERY - Date.now()));
}

document.body.addEventListener("live:changed", (event) => {
  if (list() && !("flawed" in list().dataset) && event.detail.what.includes(list().dataset.liveList)) stir();
});
document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-new]")) show(event).catch(() => location.reload());
});

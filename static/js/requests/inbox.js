// Keeps the list of the inbox true without moving what one reads: rows change in place, new ones wait behind a button.
const EVERY = 1500;
const list = () => document.getElementById("inbox-list");
const rowsIn = (root) => [...root.querySelectorAll("[data-row]")];
let last = 0;
let waiting = 0;

const address = (extra) => {
  const url = new URL(list().dataset.address, location.href);
  for (const [name, value] of Object.entries(extra)) url.searchParams.set(name, value);
  return url;
};

async function read(url) {
  const answer = await fetch(url, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(`the list answered ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// The link itself stays, and with it whoever has it in focus.
function renew(old, fresh) {
  const link = old.querySelector(".row-link");
  const current = link.getAttribute("aria-current");
  old.className = fresh.className + (current ? " is-here" : "");
  if (link.innerHTML !== fresh.querySelector(".row-link").innerHTML) {
    link.replaceChildren(...document.importNode(fresh.querySelector(".row-link"), true).childNodes);
  }
}

function fade(row) {
  row.classList.add("is-gone");
  const meta = row.querySelector(".row-meta");
  if (meta && !row.querySelector(".row-gone")) {
    meta.append(Object.assign(document.createElement("span"), { className: "row-gone", textContent: "No longer assigned to you" }));
  }
}

function badge(text) {
  for (const place of document.querySelectorAll("[data-open-count]")) {
    place.textContent = text;
    place.hidden = text === "0";
  }
}

function offer(number) {
  const button = list().querySelector("[data-new]");
  if (!button) return number && show();
  button.hidden = number === 0;
  button.querySelector("span").textContent = `Show ${number} new ${number === 1 ? "request" : "requests"}`;
}

async function look() {
  last = Date.now();
  const shown = rowsIn(list());
  const ids = shown.map((row) => row.dataset.row).join(",");
  const news = (await read(address({ fragment: "news", since: list().dataset.asof, ids, whole: list().dataset.whole }))).querySelector("[data-news]");
  if (!news) return;
  const fresh = new Map(rowsIn(news).map((row) => [row.dataset.row, row]));
  for (const row of shown) {
    if (!row.isConnected) continue;
    if (fresh.has(row.dataset.row)) renew(row, fresh.get(row.dataset.row));
    else fade(row);
  }
  const tabs = document.getElementById("inbox-tabs");
  if (tabs && !tabs.contains(document.activeElement)) tabs.replaceWith(document.importNode(news.querySelector("#inbox-tabs"), true));
  badge(news.dataset.openNow);
  offer(Number(news.dataset.new));
  document.dispatchEvent(new CustomEvent("htmx:after:swap"));
}

async function show(event) {
  event?.preventDefault();
  const known = new Set(rowsIn(list()).map((row) => row.dataset.row));
  const fresh = (await read(address({ fragment: "list" }))).getElementById("inbox-list");
  const open = list().querySelector("[aria-current=true][data-nav]")?.closest("[data-row]")?.dataset.row;
  list().replaceWith(document.importNode(fresh, true));
  document.querySelector(`[data-row="${CSS.escape(open ?? "")}"] .row-link`)?.setAttribute("aria-current", "true");
  const first = rowsIn(list()).find((row) => !known.has(row.dataset.row));
  for (const row of rowsIn(list())) if (!known.has(row.dataset.row)) row.classList.add("is-fresh");
  if (event) (first ?? rowsIn(list())[0])?.querySelector("a").focus();
}

function stir() {
  clearTimeout(waiting);
  waiting = setTimeout(() => look().catch(() => {}), Math.max(0, last + EVERY - Date.now()));
}

document.body.addEventListener("live:changed", (event) => { if (list() && !("flawed" in list().dataset) && event.detail.what.includes("inbox")) stir(); });
document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-new]")) show(event).catch(() => location.reload());
});

// The list stays where it was scrolled to while one goes from card to card.
const box = document.querySelector("[data-keep-scroll]");
const key = `wfdash_scroll ${list()?.dataset.address}`;
if (box) {
  box.scrollTop = Number(sessionStorage.getItem(key) ?? 0);
  const here = box.querySelector("[data-nav][aria-current]");
  const [top, bottom] = here ? [here.offsetTop - box.offsetTop, here.offsetTop - box.offsetTop + here.offsetHeight] : [0, 0];
  if (here && (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight)) box.scrollTop = top - box.clientHeight / 3;
  addEventListener("pagehide", () => sessionStorage.setItem(key, String(box.scrollTop)));
}

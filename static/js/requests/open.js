// Opens another request in place: j and k, Skip and Back, a row beside the card, and the browser's own Back. Each has its
// address. Without this, or where the page has other parts than this one, the browser follows the link.
import { toast } from "../site/toast.js";
import { fits, isOfThisVersion, parse, point, readCard, show } from "./swap.js";

const LINKS = "#inbox-list a[data-nav], .focus-ways a";

let wanted = null;
let loading = false;
let here = location.href;

const plain = (event) => event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
const card = () => document.querySelector(".inbox-card, .focus-card");
// In focus mode the card has no box of its own.
const shown = () => document.querySelector(".focus") ?? (card()?.checkVisibility() || null);
const idOf = (root) => root.querySelector("[data-request]")?.dataset.request;
const requestIn = (address) => new URL(address, location.href).searchParams.get("request");
const listIn = (root) => root.querySelector("[data-live-list]")?.dataset.address;
const pathOf = (address) => address.split("#")[0];

// Of keys that are pressed while a card is on its way only the last one counts.
async function open(address, step) {
  const idle = !wanted && !loading;
  wanted = { address, step };
  if (idle) await arrive();
}

async function arrive() {
  loading = true;
  // A key that is pressed now is not meant for the card that leaves.
  card().inert = true;
  try {
    while (wanted) {
      const next = wanted;
      point(requestIn(next.address));
      const answer = await read(next.address);
      if (next !== wanted) continue;
      wanted = null;
      put(answer, next);
    }
  } catch {
    wanted = null;
    card().inert = false;
    point(idOf(document));
    readCard();
    toast("The request could not be opened: the server cannot be reached.", "bad");
  } finally {
    loading = false;
  }
}

// What was typed becomes a draft first: it is there when one comes back.
async function read(address) {
  const before = [];
  document.dispatchEvent(new CustomEvent("card:leaving", { detail: before }));
  await Promise.allSettled(before);
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  return { ok: answer.ok, page: parse(await answer.text()) };
}

function put({ ok, page }, { address, step }) {
  const same = ok && fits(page) && isOfThisVersion(page) && listIn(page) === listIn(document);
  if (!same) return step ? location.assign(address) : location.reload();
  show(page, address, { step, listed: false });
  point(requestIn(address) ?? idOf(document));
  readCard();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.(LINKS);
  if (!link || event.defaultPrevented || !plain(event) || !shown()) return;
  event.preventDefault();
  // An answer that is on its way opens the next card itself.
  if (!document.querySelector("[data-sending]")) open(link.href, true);
});

// Back and forward. A change of the fragment alone stays in this page.
addEventListener("popstate", () => {
  if (pathOf(location.href) !== pathOf(here)) open(location.href, false);
});
document.addEventListener("card:shown", () => { here = location.href; });

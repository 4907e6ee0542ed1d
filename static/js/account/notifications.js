// The notices in the bar: their number and the newest few, live; a message on the desktop while the tab is not in front.
import { LiveSocket } from "../live/socket.js";
import { counted, refresh as renewTimes } from "../site/time.js";
import { toast } from "../site/toast.js";
import { root } from "../site/root.js";

const menu = document.querySelector("[data-notifications]");
const LISTS = `${root}live/lists/`;
const canShow = () => "Notification" in window && Notification.permission === "granted";

// Only notifications newer than the page, and not shown yet, are shown.
const made = new Date(menu?.dataset.made);
const told = new Set();
// Shown one by one; of more that come at once, the number.
const MOST = 3;
let fetching = false;
let again = false;
let looked = Date.now();

async function refresh() {
  looked = Date.now();
  if (fetching) return void (again = true);
  fetching = true;
  try {
    const answer = await fetch(menu.dataset.notifications, { headers: { accept: "text/html" } });
    if (answer.ok && !answer.redirected) show(await answer.text());
  } catch {
    // Offline: the socket will say when it is back.
  } finally {
    fetching = false;
    if (again) {
      again = false;
      refresh();
    }
  }
}

function show(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").querySelector("#notice-menu");
  if (!fresh) return;
  const unread = fresh.dataset.count;
  const badge = menu.querySelector("[data-notice-count]");
  badge.textContent = unread;
  badge.hidden = unread === "0";
  menu.querySelector(".menu-button").setAttribute("aria-label", badge.hidden ? "Notifications" : `Notifications, ${unread} unread`);
  const unheard = [...fresh.querySelectorAll("[data-loud]")].filter(isNew);
  unheard.slice(0, MOST).forEach(tell);
  if (unheard.length > MOST) tellNumber(unheard.length - MOST);
  if (!menu.querySelector(".menu-panel").matches(":focus-within")) {
    menu.querySelector("#notice-menu").replaceWith(document.importNode(fresh, true));
    renewTimes(menu);
  }
}

function isNew(item) {
  const { notice } = item.dataset;
  if (told.has(notice) || new Date(item.querySelector("time").dateTime) < made) return false;
  told.add(notice);
  return true;
}

function tellNumber(more) {
  if (!document.hidden) toast(counted(more, "more new notification"));
}

// Several tabs show the same message once: its tag is the notice's.
function tell(item) {
  const { notice } = item.dataset;
  const words = item.querySelector("[data-notice-words]").textContent;
  if (!document.hidden) return toast(words);
  if (!canShow()) return;
  const message = new Notification("wfdash", { body: words, tag: notice });
  message.addEventListener("click", () => {
    focus();
    location.assign(item.getAttribute("href"));
  });
}

if (menu) {
  menu.querySelector("[popover]").addEventListener("toggle", ({ newState }) => newState === "open" && refresh());
  document.body.addEventListener("live:notices", refresh);
  // Pages without a list have no socket of their own for this.
  if (!document.querySelector(`[data-live="${LISTS}"]`)) {
    const changed = (what) => what.includes("notices") && refresh();
    const socket = new LiveSocket(LISTS, null, { changed, state() {} });
    addEventListener("pagehide", () => socket.stop());
    addEventListener("pageshow", (event) => event.persisted && socket.retry());
    document.addEventListener("visibilitychange", () => document.hidden || socket.retry());
  }
  // A push may have been lost with the connection.
  document.addEventListener("visibilitychange", () => !document.hidden && Date.now() - looked > 60_000 && refresh());
}

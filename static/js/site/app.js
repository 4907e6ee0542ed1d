// As an app: the number of requests that wait for this person is on its icon, and its worker says when there is no
// connection. In a tab there is no worker: a browser says that itself.
import { root } from "./root.js";

const count = document.querySelector("[data-open-count]");
const installed = () => matchMedia("(display-mode: standalone)").matches || navigator.standalone === true;

function badge() {
  const waiting = count && !count.hidden ? Number(count.textContent) : 0;
  const done = waiting > 0 ? navigator.setAppBadge(waiting) : navigator.clearAppBadge();
  done.catch(() => {}); // not installed, or not allowed
}

if (navigator.setAppBadge) {
  badge();
  if (count) new MutationObserver(badge).observe(count, { childList: true, characterData: true, attributes: true, subtree: true });
}

const register = () => navigator.serviceWorker.register(`${root}service-worker.js`);
if ("serviceWorker" in navigator) {
  if (installed()) register().catch(() => {});
  addEventListener("appinstalled", () => register().catch(() => {}));
}

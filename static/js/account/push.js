// Push notifications in this browser: turned on by asking, and off by removing this browser from the list.
import { root } from "../site/root.js";

const part = document.querySelector("[data-push]");
const words = part?.querySelector("[data-push-words]");
const ask = part?.querySelector("[data-push-ask]");
const button = part?.querySelector("[data-push-on]");
const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
const token = () => JSON.parse(document.body.getAttribute("hx-headers"))["x-csrftoken"];
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const REASONS = {
  insecure: "Push notifications need HTTPS.",
  home: "On iPhone and iPad, first add wfdash to the home screen: Share, then “Add to Home Screen”.",
  missing: "This browser has no push notifications.",
  denied: "Notifications are blocked. Allow them in your browser's settings for this site.",
  failed: "This browser could not be subscribed. Try again later.",
};

function why() {
  if (!isSecureContext) return "insecure";
  if ("PushManager" in window && "serviceWorker" in navigator) return Notification.permission === "denied" ? "denied" : "";
  return /iPhone|iPad/.test(navigator.userAgent) ? "home" : "missing";
}

const say = (text) => { words.textContent = text; };
const worker = async () => (await navigator.serviceWorker.getRegistration("/"))?.pushManager.getSubscription();

async function rowOf(subscription) {
  const digest = hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(subscription.endpoint)));
  return part.querySelector(`[data-browser="${digest}"]`);
}

async function show() {
  const reason = why();
  if (reason) return say(REASONS[reason]);
  const subscription = await worker();
  const row = subscription && await rowOf(subscription);
  ask.hidden = Boolean(row);
  if (row) row.querySelector("[data-this]").hidden = false;
}

// A subscription is bound to the installation's key: one for another key is of no use.
async function subscribed(manager) {
  const key = bytes(part.dataset.push);
  const old = await manager.getSubscription();
  const bound = old?.options.applicationServerKey;
  if (bound && hex(bound) === hex(key)) return old;
  await old?.unsubscribe();
  return manager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
}

async function turnOn() {
  if ((await Notification.requestPermission()) !== "granted") return say(REASONS[why() || "denied"]);
  await navigator.serviceWorker.register(`${root}service-worker.js`);
  const { endpoint, keys } = (await subscribed((await navigator.serviceWorker.ready).pushManager)).toJSON();
  const body = new URLSearchParams({ endpoint, p256dh: keys.p256dh, auth: keys.auth });
  const answer = await fetch(part.dataset.address, { method: "POST", headers: { "x-csrftoken": token(), accept: "application/json" }, body });
  if (!answer.ok) return say((await answer.json()).error ?? REASONS.failed);
  location.reload();
}

if (part?.dataset.push) {
  button.addEventListener("click", () => {
    button.disabled = true;
    turnOn().catch(() => say(REASONS.failed)).finally(() => { button.disabled = false; });
  });
  show();
  part.addEventListener("submit", async (event) => {
    const row = event.target.closest("[data-browser]");
    if (event.submitter?.value !== "remove" || row?.querySelector("[data-this]").hidden !== false) return;
    event.preventDefault();
    await (await worker())?.unsubscribe().catch(() => {});
    event.target.submit();
  });
}

// Shows notifications that arrive while no page is open, and says so where there is no connection. APP is written above
// by the server. Nothing that a person sees after signing in is ever kept.
const NAME = `wfdash-${APP.version}`;

async function keep() {
  const cache = await caches.open(NAME);
  await cache.addAll(APP.kept.map((path) => new Request(path, { credentials: "omit", cache: "reload" })));
  await self.skipWaiting();
}

async function forgetOthers() {
  for (const name of await caches.keys()) if (name !== NAME) await caches.delete(name);
  await self.clients.claim();
}

const kept = async (path) => (await caches.open(NAME)).match(path);

// Only whole pages: what a page asks for itself, and what it sends, fails as it would without this.
async function page(request) {
  try {
    return await fetch(request);
  } catch (error) {
    return (await kept(APP.offline)) ?? Response.error();
  }
}

async function file(request) {
  return (await kept(new URL(request.url).pathname)) ?? fetch(request);
}

function badge(count) {
  if (!self.navigator.setAppBadge) return undefined;
  return count > 0 ? self.navigator.setAppBadge(count) : self.navigator.clearAppBadge();
}

function read(event) {
  try {
    return event.data.json();
  } catch {
    return { title: "wfdash", body: "", url: APP.root, tag: "", waiting: null };
  }
}

function show({ title, body, url, tag, waiting }) {
  const shown = self.registration.showNotification(title, { body, tag, icon: APP.icon, badge: APP.icon, data: { url } });
  return Promise.all([shown, waiting === null ? undefined : Promise.resolve(badge(waiting)).catch(() => {})]);
}

// Never leaves this site, whatever a message says.
function own(url) {
  const found = new URL(url ?? APP.root, self.location.origin);
  return found.origin === self.location.origin ? found.href : `${self.location.origin}${APP.root}`;
}

async function open(url) {
  const windows = await self.clients.matchAll({ type: "window" });
  const shown = windows.find((one) => one.url === url);
  if (shown) return shown.focus();
  return self.clients.openWindow(url);
}

self.addEventListener("install", (event) => event.waitUntil(keep()));
self.addEventListener("activate", (event) => event.waitUntil(forgetOthers()));
self.addEventListener("push", (event) => event.waitUntil(show(read(event))));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(own(event.notification.data?.url)));
});
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  if (request.mode === "navigate") event.respondWith(page(request));
  else if (APP.kept.includes(new URL(request.url).pathname)) event.respondWith(file(request));
});

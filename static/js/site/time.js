// Keeps <time data-relative> true and shows <time data-clock> in this browser's zone: the server writes the words, this
// renews them. Words match wfdash/pages/ui/times.py. A cookie tells the server the zone.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const FAR = 30 * 86400;
const SOON = 3 * 86400;
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
const SHAPE = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const parts = new Intl.DateTimeFormat("en", SHAPE);
const offsets = new Intl.DateTimeFormat("en", { timeZoneName: "shortOffset" });

const told = document.cookie.split("; ").find((one) => one.startsWith("wfdash_zone="))?.slice(12);
if (told !== encodeURIComponent(ZONE)) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `wfdash_zone=${encodeURIComponent(ZONE)}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
}

// 2026-11-21 06:09:10
function local(at) {
  const found = Object.fromEntries(parts.formatToParts(at).map(({ type, value }) => [type, value]));
  return `${found.year}-${found.month}-${found.day} ${found.hour}:${found.minute}:${found.second}`;
}

export function exact(at) {
  const zone = offsets.formatToParts(at).find(({ type }) => type === "timeZoneName")?.value ?? "";
  return `${local(at)} ${zone.replace("GMT", "UTC").replace("\u2212", "-")}`;
}

const clock = (at) => `${local(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;

function twoUnits(total) {
  const first = UNITS.findIndex(([unit]) => total >= unit);
  const said = [];
  let left = total;
  for (const [unit, word] of UNITS.slice(first, first + 2)) {
    const amount = Math.floor(left / unit);
    left -= amount * unit;
    if (amount || !said.length) said.push(`${amount} ${word}`);
  }
  return said.join(" ");
}

export function relative(at, now = new Date()) {
  const seconds = Math.round((at - now) / 1000);
  if (Math.abs(seconds) < 5) return "now";
  if (seconds > 0) return seconds < SOON ? `in ${twoUnits(seconds)}` : local(at).slice(0, 16);
  if (-seconds >= FAR) return local(at).slice(0, 10);
  const [unit, word] = UNITS.find(([size]) => -seconds >= size);
  return `${Math.floor(-seconds / unit)} ${word} ago`;
}

function since(at, now = new Date()) {
  const seconds = Math.round((now - at) / 1000);
  if (seconds >= FAR) return `${Math.floor(seconds / UNITS[0][0])} d`;
  return Math.abs(seconds) < 5 ? "a moment" : relative(at, now).replace(/ ago$/, "");
}

function renew(element) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.valueOf())) return;
  let words = "clock" in element.dataset ? clock(at) : relative(at);
  if ("since" in element.dataset) words = since(at);
  if (element.textContent !== words) element.textContent = words;
  const title = exact(at);
  if (element.title !== title) element.title = title;
  element.classList.toggle("overdue", "due" in element.dataset && at < new Date());
}

export function refresh(root = document) {
  for (const element of root.querySelectorAll("time:is([data-relative], [data-clock])")) renew(element);
}

function lasted(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 10 ? `${seconds.toFixed(1)} s` : twoUnits(Math.round(seconds));
}

// Growing durations: [data-ticking] holds the seconds at the time of rendering. One clock for all.
const begins = new WeakMap();

function tick() {
  const now = performance.now();
  for (const element of document.querySelectorAll("[data-ticking]")) {
    const written = element.dataset.ticking;
    let known = begins.get(element);
    if (known?.written !== written) begins.set(element, (known = { written, at: now - Number(written) * 1000 }));
    const words = lasted((now - known.at) / 1000) + (element.dataset.tickingRest ?? "");
    if (element.textContent !== words) element.textContent = words;
  }
  refreshYoung();
}

// Times of the last minute, shown in seconds, use the same clock.
function refreshYoung() {
  for (const element of document.querySelectorAll("time[data-relative][data-since]")) {
    if (Date.now() - new Date(element.dateTime) < 60_000) renew(element);
  }
}

refresh();
tick();
setInterval(() => { if (!document.hidden) tick(); }, 1000);
setInterval(() => { if (!document.hidden) refresh(); }, 10_000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
document.addEventListener("htmx:after:swap", () => refresh());

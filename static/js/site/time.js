// Keeps <time data-relative> true and shows <time data-clock> in this browser's zone: the server writes the words, this
// renews them. The twin of wfdash/web/pages/ui/times.py: tests/pages/ui/time_cases.py is asked of both. Cookies tell the
// server the zone, and whether dates are shown instead of relative times: pages are right from the start.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const NEAR = 3 * 86400;
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
const SHAPE = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const parts = new Intl.DateTimeFormat("en", SHAPE);
const offsets = new Intl.DateTimeFormat("en", { timeZoneName: "shortOffset" });
const CHOICE = "wfdash_times";

const cookie = (name) => document.cookie.split("; ").find((one) => one.startsWith(`${name}=`))?.slice(name.length + 1);

function remember(name, value) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${name}=${value}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
}

const absolute = () => cookie(CHOICE) === "absolute";
if (cookie("wfdash_zone") !== encodeURIComponent(ZONE)) {
  remember("wfdash_zone", encodeURIComponent(ZONE));
  // Days of a chart and marks of a timeline are drawn in the zone that the server knows: once it knows, again.
  const known = cookie("wfdash_zone") === encodeURIComponent(ZONE);
  if (known && document.querySelector("[data-zoned]")) location.reload();
}

// 2026-11-21 06:09:10
export function toSecond(at) {
  const found = Object.fromEntries(parts.formatToParts(at).map(({ type, value }) => [type, value]));
  return `${found.year}-${found.month}-${found.day} ${found.hour}:${found.minute}:${found.second}`;
}

export function offset(at) {
  const zone = offsets.formatToParts(at).find(({ type }) => type === "timeZoneName")?.value ?? "";
  const words = zone.replace("GMT", "UTC").replace("\u2212", "-");
  return words === "UTC+0" ? "UTC" : words;
}

export const exact = (at) => `${toSecond(at)} ${offset(at)}`;

export const clock = (at) => `${toSecond(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;

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

// A past duration: its seconds would flicker in every list.
const age = (total) => twoUnits(total >= 60 ? total - (total % 60) : total);

export function relative(at, now = new Date()) {
  const seconds = Math.floor((at - now) / 1000 + 0.5);
  if (Math.abs(seconds) < 5) return "now";
  if (Math.abs(seconds) >= NEAR) return toSecond(at).slice(0, seconds > 0 ? 16 : 10);
  return seconds > 0 ? `in ${twoUnits(seconds)}` : `${age(-seconds)} ago`;
}

export function since(at, now = new Date()) {
  const seconds = Math.floor((now - at) / 1000 + 0.5);
  if (seconds >= NEAR) return `${Math.floor(seconds / UNITS[0][0])} d`;
  return seconds < 5 ? "a moment" : age(seconds);
}

// Numbers and counts as the server's language writes them (times.py).
export const number = (value, shape) => value.toLocaleString(document.documentElement.dataset.language, shape);

export const counted = (count, one, several = `${one}s`) => `${number(count)} ${count === 1 ? one : several}`;

export function duration(seconds) {
  const ms = Math.floor(Math.max(seconds, 0) * 1000 + 0.5);
  if (ms < 1000) return `${ms} ms`;
  if (ms < 9950) return `${number(Math.floor((ms + 50) / 100) / 10, { minimumFractionDigits: 1 })} s`;
  const total = Math.floor((ms + 500) / 1000);
  const smaller = total >= 86400 ? 3600 : total >= 3600 ? 60 : 1;
  return twoUnits(Math.floor((total + Math.floor(smaller / 2)) / smaller) * smaller);
}

function wordsOf(at, { clock: isClock, since: isSince }) {
  if (isClock !== undefined) return clock(at);
  if (isSince !== undefined) return since(at);
  return absolute() ? toSecond(at) : relative(at);
}

function renew(element) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.valueOf())) return;
  const words = wordsOf(at, element.dataset);
  if (element.textContent !== words) element.textContent = words;
  const title = exact(at);
  if (element.title !== title) element.title = title;
  element.classList.toggle("overdue", "due" in element.dataset && at < new Date());
}

export function refresh(root = document) {
  for (const element of root.querySelectorAll("time:is([data-relative], [data-clock])")) renew(element);
  for (const element of root.querySelectorAll("[data-zone]")) {
    element.textContent = offset(new Date());
    element.title = ZONE;
    if ("zoneLists" in element.dataset) element.hidden = !absolute();
  }
}

// Relative times or dates: the choice of this browser, for every page.
function showChoice() {
  for (const button of document.querySelectorAll("[data-times-choice]")) {
    button.setAttribute("aria-pressed", String((button.dataset.timesChoice === "absolute") === absolute()));
  }
}

function choose(words) {
  remember(CHOICE, words);
  showChoice();
  refresh();
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-times-toggle]")) choose(absolute() ? "relative" : "absolute");
  const button = event.target.closest("[data-times-choice]");
  if (button) choose(button.dataset.timesChoice);
});

// Growing durations: [data-ticking] holds the seconds at the time of rendering. One clock for all.
const begins = new WeakMap();

function tick() {
  const now = performance.now();
  for (const element of document.querySelectorAll("[data-ticking]")) {
    const written = element.dataset.ticking;
    let known = begins.get(element);
    if (known?.written !== written) begins.set(element, (known = { written, at: now - Number(written) * 1000 }));
    const words = duration((now - known.at) / 1000) + (element.dataset.tickingRest ?? "");
    if (element.textContent === words) continue;
    // What has a name of its own is called as it is shown.
    const named = element.closest("a[aria-label]");
    if (named) named.ariaLabel = named.ariaLabel.replace(element.textContent.trim(), words);
    element.textContent = words;
  }
  refreshYoung();
}

// Times of the last minute and those due within an hour, shown in seconds, use the same clock.
function refreshYoung() {
  for (const element of document.querySelectorAll("time[data-relative]:is([data-since], [data-due])")) {
    const left = new Date(element.dateTime) - Date.now();
    if (left > -60_000 && left < 3_600_000) renew(element);
  }
}

for (const part of document.querySelectorAll("[data-times-switch]")) part.hidden = false;
showChoice();
refresh();
tick();
setInterval(() => { if (!document.hidden) tick(); }, 1000);
setInterval(() => { if (!document.hidden) refresh(); }, 10_000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
document.addEventListener("htmx:after:swap", () => refresh());

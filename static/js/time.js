// Keeps <time data-relative> true: the server writes the words, this renews them. Words match wfdash/pages/timefmt.py.
const STEPS = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [Infinity, 86400, "d"]];
const FAR = 30 * 86400;

export function relative(at, now = new Date()) {
  const seconds = Math.round((at - now) / 1000);
  const size = Math.abs(seconds);
  if (size < 5) return "now";
  if (size >= FAR) return at.toISOString().slice(0, 10);
  const [, unit, word] = STEPS.find(([limit]) => size < limit);
  const amount = `${Math.floor(size / unit)} ${word}`;
  return seconds < 0 ? `${amount} ago` : `in ${amount}`;
}

export function refresh(root = document) {
  for (const element of root.querySelectorAll("time[data-relative]")) {
    const at = new Date(element.dateTime);
    let words = Number.isNaN(at.valueOf()) ? element.textContent : relative(at);
    if ("since" in element.dataset) words = words === "now" ? "a moment" : words.replace(/ ago$/, "");
    if (element.textContent !== words) element.textContent = words;
    element.classList.toggle("overdue", "due" in element.dataset && at < new Date());
  }
}

refresh();
setInterval(() => { if (!document.hidden) refresh(); }, 10_000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
document.addEventListener("htmx:after:swap", () => refresh());

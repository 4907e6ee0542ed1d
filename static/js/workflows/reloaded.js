// While workflow files are read again when they change (wfdash up --reload): says what changed on open pages. A page of
// workflows shows it at once, unless someone has typed there.
import { LiveSocket } from "../live/socket.js";
import { toast } from "../site/toast.js";
import { root } from "../site/root.js";

const SAID = "wfdash-reloaded";

async function look() {
  const answer = await fetch(`${root}reloaded/workflows/`, { headers: { accept: "application/json" } });
  if (!answer.ok || answer.redirected) return;
  const { words, failed } = await answer.json();
  const text = failed.length ? failed.join("; ") : `Workflows reloaded: ${words.join("; ") || "no change"}`;
  const said = { text, tone: failed.length ? "bad" : "good" };
  const stays = !location.pathname.startsWith(`${root}workflows/`) || document.querySelector("form[data-touched]");
  if (stays) return toast(said.text, said.tone);
  sessionStorage.setItem(SAID, JSON.stringify(said));
  location.reload();
}

document.addEventListener("input", (event) => event.target.form?.setAttribute("data-touched", ""));
const before = JSON.parse(sessionStorage.getItem(SAID) ?? "null");
sessionStorage.removeItem(SAID);
if (before) toast(before.text, before.tone);
const nothing = () => {};
new LiveSocket(`${root}live/lists/`, null, {
  events: nothing,
  snapshot: nothing,
  stream: nothing,
  state: nothing,
  changed: (what) => what.some((part) => part.startsWith("code:")) && look().catch(nothing),
});

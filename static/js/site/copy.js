// One press copies: data-copy="text", data-copy-link="address" (made absolute), data-copy-of="id" (the text of that
// element), data-copy-from="address" (what is there). Buttons of class "copy" are shown only where this runs.
import { toast } from "./toast.js";

const SHOWN = 2_000;
const PLACES = "[data-copy], [data-copy-link], [data-copy-of], [data-copy-from]";

async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
  return answer.text();
}

async function textOf({ copy, copyLink, copyOf, copyFrom }) {
  if (copy !== undefined) return copy;
  if (copyLink !== undefined) return new URL(copyLink, location.href).href;
  if (copyOf !== undefined) return document.getElementById(copyOf).textContent;
  return fetched(copyFrom);
}

// Browsers offer their clipboard on HTTPS and on this machine alone; everywhere else a selection can be copied.
function copySelected(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("refused");
}

async function write(place) {
  const text = await textOf(place.dataset);
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copySelected(text);
}

function say(place) {
  const words = place.querySelector("[data-copy-words]");
  const before = words?.textContent;
  if (words) words.textContent = "Copied";
  place.dataset.copied = "";
  status.textContent = "";
  status.textContent = "Copied";
  setTimeout(() => {
    delete place.dataset.copied;
    if (words) words.textContent = before;
  }, SHOWN);
}

const status = document.createElement("p");
status.className = "visually-hidden";
status.setAttribute("role", "status");
document.body.append(status);
document.documentElement.classList.add("copies");

document.addEventListener("click", async (event) => {
  const place = event.target.closest(PLACES);
  if (!place || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if ("copied" in place.dataset) return;
  try {
    await write(place);
    say(place);
    place.focus({ preventScroll: true });
  } catch {
    toast("Copy failed. Select the text and copy it.", "bad");
  }
});

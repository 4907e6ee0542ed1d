// The search over everything, on every page: Ctrl+K, on a Mac Cmd+K, or the link in the navigation opens a combobox in a
// dialog. Without this, the link leads to a page with the same results.
import { counted } from "./time.js";

const WAIT = 80;
const MAC = /Mac|iPhone|iPad/.test(navigator.platform);
const dialog = document.getElementById("palette");
const input = dialog?.querySelector("[role=combobox]");
const found = dialog?.querySelector("[data-palette-found]");
const said = dialog?.querySelector("[data-palette-status]");

let timer = 0;
let asking = null; // the latest question: an answer to any other is dropped
let shown = null; // the text whose results are shown
let opens = false; // Enter was pressed before its results were there

const text = () => input.value.trim();
const options = () => [...found.querySelectorAll("[role=option]")];
const chosen = () => found.querySelector("[aria-selected=true]");

function choose(option, { scroll = true } = {}) {
  chosen()?.setAttribute("aria-selected", "false");
  if (!option) return input.removeAttribute("aria-activedescendant");
  option.setAttribute("aria-selected", "true");
  input.setAttribute("aria-activedescendant", option.id);
  if (scroll) option.scrollIntoView({ block: "nearest" });
}

function move(step) {
  const all = options();
  if (!all.length) return;
  const at = all.indexOf(chosen());
  choose(all[(at + step + all.length + (at < 0 && step < 0 ? 1 : 0)) % all.length]);
}

function show(nodes, wanted) {
  found.replaceChildren(...nodes);
  found.removeAttribute("aria-busy");
  shown = wanted;
  const all = options();
  input.setAttribute("aria-expanded", String(all.length > 0));
  choose(all[0], { scroll: false });
  const flaws = [...found.querySelectorAll(".palette-flaws li")].map((one) => one.textContent.trim());
  said.textContent = [...flaws, counted(all.length, "result")].join(" ");
  if (opens) follow();
}

function fail(wanted) {
  const words = Object.assign(document.createElement("p"), { className: "palette-none", textContent: "Search is not available right now. Press Enter to open the search page." });
  opens = false;
  show([words], wanted);
  said.textContent = words.textContent;
}

async function ask() {
  clearTimeout(timer);
  asking?.abort();
  const mine = (asking = new AbortController());
  const wanted = text();
  found.setAttribute("aria-busy", "true");
  try {
    const query = new URLSearchParams({ q: wanted, fragment: "options" });
    const answer = await fetch(`${dialog.dataset.palette}?${query}`, { signal: mine.signal });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine === asking) show(page.body.childNodes, wanted);
  } catch {
    if (mine === asking) fail(wanted);
  }
}

// What Enter opens: never what was found for an earlier text.
function follow(aside = false) {
  opens = shown !== text();
  if (opens) return ask();
  const option = chosen();
  if (!option) return text() && input.form.submit();
  if (aside) window.open(option.href, "_blank", "noopener");
  else option.click();
}

function open() {
  if (dialog.open) return input.select();
  if (document.querySelector("dialog:modal")) return;
  dialog.showModal();
  input.focus();
  ask();
}

function reset() {
  clearTimeout(timer);
  asking?.abort();
  asking = shown = null;
  opens = false;
  input.value = "";
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
  found.replaceChildren();
  said.textContent = "";
}

function press(event) {
  if (event.isComposing) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  }
  if (event.key !== "Enter") return;
  event.preventDefault();
  event.stopPropagation();
  follow(event.ctrlKey || event.metaKey);
}

if (dialog) {
  for (const link of document.querySelectorAll("[data-palette-open]")) {
    if (MAC) link.dataset.key = "⌘ K";
    link.querySelector("kbd")?.replaceChildren(MAC ? "⌘K" : "Ctrl K");
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open();
    });
  }
  document.addEventListener("keydown", (event) => {
    const held = MAC ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
    if (!held || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    open();
  });
  input.addEventListener("input", () => {
    opens = false;
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT);
  });
  input.addEventListener("keydown", press);
  found.addEventListener("pointermove", (event) => {
    const option = event.target.closest("[role=option]");
    if (option && option !== chosen()) choose(option, { scroll: false });
  });
  dialog.addEventListener("click", (event) => {
    const aside = event.ctrlKey || event.metaKey || event.shiftKey;
    const closes = event.target === dialog || event.target.closest("[data-palette-close]");
    if (closes || (!aside && event.target.closest("[role=option]"))) dialog.close();
  });
  dialog.addEventListener("close", reset);
}

// toast("Saved", "good"): a short message that leaves by itself; errors stay until they are closed.
const SHOWN = 6000;
// At once: a burst of messages must not cover the page. The oldest leave first; errors stay.
const MOST = 4;

export function toast(text, tone = "info") {
  const box = document.createElement("div");
  box.className = `toast ${tone}`;
  const words = document.createElement("span");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "toast-close";
  close.setAttribute("aria-label", "Close message");
  close.textContent = "×";
  close.addEventListener("click", () => box.remove());
  box.append(words, close);
  const pile = document.getElementById("toasts");
  pile?.append(box);
  [...(pile?.querySelectorAll(".toast:not(.bad)") ?? [])].slice(0, -MOST).forEach((old) => old.remove());
  if (tone !== "bad") setTimeout(() => box.remove(), SHOWN);
}

// Messages that came with the page.
const reveal = () => { for (const button of document.querySelectorAll("[data-message-close]")) button.hidden = false; };
document.addEventListener("click", ({ target }) => target.closest?.("[data-message-close]")?.closest(".alert").remove());
document.addEventListener("htmx:after:swap", reveal);
reveal();

// A few words beside an element, for as long as it has the focus, or else a few seconds. Said once, however often asked.
const HINTED = 4000;
let hinted = null;
let leaves = 0;

export function hint(text, element) {
  const again = hinted?.isConnected && hinted.textContent === text;
  if (!again) {
    hinted?.remove();
    hinted = document.createElement("div");
    hinted.className = "key-hint";
    hinted.setAttribute("role", "status");
    document.body.append(hinted);
    hinted.textContent = text;
  }
  const box = hinted;
  const { left, top, bottom } = element.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = box;
  const above = top < innerHeight ? top - height - 8 : innerHeight - height - 16;
  box.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - width - 8))}px`;
  box.style.top = `${above >= 8 ? above : Math.max(8, bottom + 8)}px`;
  clearTimeout(leaves);
  if (document.activeElement === element) element.addEventListener("blur", () => box.remove(), { once: true });
  else leaves = setTimeout(() => box.remove(), HINTED);
}

for (const moved of ["toggle", "card:shown"]) document.addEventListener(moved, ({ target }) => target.matches?.(".dock-more") || hinted?.remove(), true);

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

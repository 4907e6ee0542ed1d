// toast("Saved", "good"): a short message that leaves by itself; errors stay until they are closed.
const SHOWN = 6000;

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
  document.getElementById("toasts")?.append(box);
  if (tone !== "bad") setTimeout(() => box.remove(), SHOWN);
}

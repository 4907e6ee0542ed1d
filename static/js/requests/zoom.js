// Images of a card in a window of their own: whole, in their own size or closer, moved by hand; and an image over its
// earlier version. Without this an image opens in another tab, and the two are side by side.
const STEP = 1.25;
const [LEAST, MOST] = [0.05, 8];
const KEYS = { "+": "in", "=": "in", "-": "out", "0": "fit", "1": "full" };

let dialog = null;
let scale = 1;

const button = (name, text, label) => {
  const made = Object.assign(document.createElement("button"), { type: "button", className: "button small", textContent: text });
  made.dataset.zoomTo = name;
  if (label) made.setAttribute("aria-label", label);
  return made;
};

function make() {
  dialog = Object.assign(document.createElement("dialog"), { className: "zoom" });
  const tools = Object.assign(document.createElement("div"), { className: "zoom-tools" });
  const words = Object.assign(document.createElement("p"), { id: "zoom-words" });
  const view = Object.assign(document.createElement("div"), { className: "zoom-view", tabIndex: 0 });
  view.setAttribute("role", "group");
  view.setAttribute("aria-label", "Image");
  const size = Object.assign(document.createElement("span"), { className: "small muted" });
  size.setAttribute("role", "status");
  tools.append(words, size, button("out", "−", "Smaller"), button("in", "+", "Larger"), button("fit", "Fit"), button("full", "100 %"), button("close", "Close"));
  view.append(document.createElement("img"));
  dialog.append(tools, view);
  dialog.setAttribute("aria-labelledby", words.id);
  document.body.append(dialog);
  return dialog;
}

const parts = () => ({ view: dialog.querySelector(".zoom-view"), image: dialog.querySelector("img"), size: dialog.querySelector("[role=status]") });

const fitting = ({ view, image }) => Math.min(1, view.clientWidth / image.naturalWidth, view.clientHeight / image.naturalHeight);

// What is at (x, y) of the view stays there.
function zoom(to, x, y) {
  const found = parts();
  const { view, image, size } = found;
  const [left, top] = [x ?? view.clientWidth / 2, y ?? view.clientHeight / 2];
  const [across, down] = [(view.scrollLeft + left) / scale, (view.scrollTop + top) / scale];
  scale = Math.min(MOST, Math.max(LEAST, to));
  image.style.width = `${image.naturalWidth * scale}px`;
  image.style.height = `${image.naturalHeight * scale}px`;
  view.scrollTo(across * scale - left, down * scale - top);
  size.textContent = `${Math.round(scale * 100)} %`;
}

function act(name) {
  if (name === "close") dialog.close();
  else zoom({ in: scale * STEP, out: scale / STEP, fit: fitting(parts()), full: 1 }[name]);
}

async function open(link) {
  dialog ?? make();
  const { image, view } = parts();
  const shown = link.querySelector("img");
  dialog.querySelector("p").textContent = shown.alt;
  image.alt = shown.alt;
  image.src = link.href;
  dialog.showModal();
  view.focus();
  try {
    await image.decode();
  } catch {
    return;
  }
  zoom(fitting(parts()));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-zoom]");
  const tool = event.target.closest?.("[data-zoom-to]");
  if (tool) act(tool.dataset.zoomTo);
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open(link);
});

// The page's own keys rest while an image is open.
document.addEventListener("keydown", (event) => {
  if (!dialog?.open) return;
  event.stopPropagation();
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  act(KEYS[event.key]);
}, true);

document.addEventListener("wheel", (event) => {
  const view = event.target.closest?.(".zoom-view");
  if (!view) return;
  event.preventDefault();
  const { left, top } = view.getBoundingClientRect();
  zoom(scale * (event.deltaY < 0 ? STEP : 1 / STEP), event.clientX - left, event.clientY - top);
}, { passive: false });

document.addEventListener("pointerdown", (event) => {
  const view = event.target.closest?.(".zoom-view");
  if (!view || event.pointerType !== "mouse" || event.button) return;
  event.preventDefault();
  view.focus();
  view.setPointerCapture(event.pointerId);
  view.classList.add("is-dragged");
  const move = ({ movementX, movementY }) => view.scrollBy(-movementX, -movementY);
  const stop = () => {
    view.removeEventListener("pointermove", move);
    view.classList.remove("is-dragged");
  };
  view.addEventListener("pointermove", move);
  view.addEventListener("lostpointercapture", stop, { once: true });
});

document.addEventListener("change", ({ target }) => {
  if (!target.matches?.("[data-slide]")) return;
  const pair = target.closest("[data-pair]");
  pair.classList.toggle("is-sliding", target.checked);
  pair.querySelector("[data-cut]").hidden = !target.checked;
});

document.addEventListener("input", ({ target }) => {
  if (target.matches?.("[data-cut]")) target.closest("[data-pair]").style.setProperty("--cut", `${target.value}%`);
});

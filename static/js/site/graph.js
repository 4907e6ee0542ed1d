// Zooms and moves graphs: <figure data-graph> with buttons [data-zoom-by], a picture that scrolls and a map of it. A
// graph is shown whole if its text can be read then, else around what is active; until someone moves it, it follows that.
const LEAST = 0.75;
const MOST = 2.5;
const STEP = 1.25;
// Text is 13 px: what would be smaller than 9 px is not shown.
const TEXT = 9 / 13;
const MAP = { width: 150, height: 40 };
const ORDER = ["failed", "waiting", "retrying", "running", "stopped", "sleeping"];
const KEYS = { "+": "in", "=": "in", "-": "out", _: "out", 0: "fit" };
const SVG = "http://www.w3.org/2000/svg";
const kept = new WeakMap();

const figures = () => document.querySelectorAll("[data-graph]");
const placeIn = (figure) => figure.querySelector(".graph-scroll");
const pictureIn = (figure) => figure.querySelector(".graph-picture");
const figureOf = (event) => event.target.closest?.("[data-graph] .graph-scroll")?.closest("[data-graph]");
const between = (low, value, high) => Math.min(Math.max(value, low), high);

function sizeOf(figure) {
  const { width, height } = pictureIn(figure).viewBox.baseVal;
  return { width, height };
}

function roomIn(figure) {
  const place = placeIn(figure);
  const { maxHeight, paddingTop, paddingBottom } = getComputedStyle(place);
  const edges = parseFloat(paddingTop) + parseFloat(paddingBottom);
  return { width: place.clientWidth, height: Math.max(parseFloat(maxHeight) || 0, place.clientHeight) - edges };
}

function whole(figure) {
  const [size, room] = [sizeOf(figure), roomIn(figure)];
  return Math.min(1, room.width / size.width, room.height / size.height);
}

const readable = (figure) => Math.max(whole(figure), LEAST);
const scaleOf = (figure) => pictureIn(figure).getBoundingClientRect().width / sizeOf(figure).width;

// What is under ``at`` stays there.
function zoom(figure, wanted, at) {
  const [place, picture, size] = [placeIn(figure), pictureIn(figure), sizeOf(figure)];
  const scale = between(Math.min(whole(figure), LEAST), wanted, MOST);
  const before = picture.getBoundingClientRect();
  picture.setAttribute("width", size.width * scale);
  picture.setAttribute("height", size.height * scale);
  const after = picture.getBoundingClientRect();
  place.scrollLeft += after.left + ((at.x - before.left) / before.width) * after.width - at.x;
  place.scrollTop += after.top + ((at.y - before.top) / before.height) * after.height - at.y;
  showMap(figure);
}

// Below a size nothing can be read: then a hint takes the place of the text, and tooltips still say it.
function showText(figure) {
  figure.classList.toggle("is-far", scaleOf(figure) < TEXT);
}

function middle(element) {
  const box = element.getBoundingClientRect();
  return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
}

function activeIn(figure) {
  const nodes = [...figure.querySelectorAll(".graph-node")];
  const state = ORDER.find((one) => nodes.some((node) => node.dataset.state === one));
  return nodes.find((node) => node.classList.contains("chosen")) ?? nodes.find((node) => node.dataset.state === state) ?? nodes[0];
}

function centre(figure) {
  const node = activeIn(figure);
  if (!node) return;
  const [place, to] = [placeIn(figure), middle(node)];
  const from = middle(place);
  place.scrollLeft += to.x - from.x;
  place.scrollTop += to.y - from.y;
}

function begin(figure) {
  zoom(figure, readable(figure), middle(placeIn(figure)));
  centre(figure);
  showMap(figure);
}

// Buttons and keys.
function act(figure, what) {
  const state = kept.get(figure);
  state.moved = what !== "active";
  if (what === "active") begin(figure);
  else zoom(figure, what === "fit" ? readable(figure) : scaleOf(figure) * (what === "in" ? STEP : 1 / STEP), middle(placeIn(figure)));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-zoom-by]");
  if (button) act(button.closest("[data-graph]"), button.dataset.zoomBy);
});
document.addEventListener("keydown", (event) => {
  const figure = figureOf(event);
  if (!figure || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.startsWith("Arrow")) kept.get(figure).moved = true;
  if (!KEYS[event.key]) return;
  event.preventDefault();
  act(figure, KEYS[event.key]);
});

// The wheel zooms with Ctrl, as pinching on a touchpad does; alone it scrolls.
document.addEventListener("wheel", (event) => {
  const figure = figureOf(event);
  if (!figure) return;
  kept.get(figure).moved = true;
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  zoom(figure, scaleOf(figure) * Math.exp(-event.deltaY / 200), { x: event.clientX, y: event.clientY });
}, { passive: false });

// Two fingers zoom, one scrolls.
let pinch = null;
function fingers({ touches: [one, other] }) {
  const at = { x: (one.clientX + other.clientX) / 2, y: (one.clientY + other.clientY) / 2 };
  return { at, apart: Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) };
}
document.addEventListener("touchstart", (event) => {
  const figure = figureOf(event);
  if (figure) kept.get(figure).moved = true;
  pinch = figure && event.touches.length === 2 ? { figure, apart: fingers(event).apart, scale: scaleOf(figure) } : null;
}, { passive: true });
document.addEventListener("touchmove", (event) => {
  if (!pinch || event.touches.length !== 2) return;
  event.preventDefault();
  const { at, apart } = fingers(event);
  zoom(pinch.figure, (pinch.scale * apart) / pinch.apart, at);
}, { passive: false });

// A mouse drags it. The click that ends a drag opens nothing.
document.addEventListener("pointerdown", (event) => {
  const figure = figureOf(event);
  if (!figure || event.button || event.pointerType === "touch") return;
  const place = placeIn(figure);
  const from = { x: event.clientX + place.scrollLeft, y: event.clientY + place.scrollTop };
  const move = ({ clientX, clientY }) => {
    if (!place.classList.contains("is-dragging") && Math.hypot(clientX - event.clientX, clientY - event.clientY) < 4) return;
    place.classList.add("is-dragging");
    kept.get(figure).moved = true;
    place.scrollTo({ left: from.x - clientX, top: from.y - clientY, behavior: "instant" });
  };
  const end = () => {
    removeEventListener("pointermove", move);
    setTimeout(() => place.classList.remove("is-dragging"));
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end, { once: true });
  addEventListener("pointercancel", end, { once: true });
});
document.addEventListener("click", (event) => {
  if (!figureOf(event) || !placeIn(figureOf(event)).classList.contains("is-dragging")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);
document.addEventListener("dragstart", (event) => { if (figureOf(event)) event.preventDefault(); });

// The map: every step as a spot, and what is in view as a frame; only where the picture is larger than its place.
function showMap(figure) {
  showText(figure);
  const [place, map, size] = [placeIn(figure), figure.querySelector(".graph-map"), sizeOf(figure)];
  const needed = place.scrollWidth > place.clientWidth + 4 || place.scrollHeight > place.clientHeight + 4;
  map.classList.toggle("is-needed", needed);
  if (!needed) return;
  const scale = Math.min(MAP.width / size.width, MAP.height / size.height);
  map.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  map.setAttribute("width", Math.max(size.width * scale, 24));
  map.setAttribute("height", Math.max(size.height * scale, 24));
  if (!map.childElementCount) drawMap(figure, map);
  const [picture, box] = [pictureIn(figure).getBoundingClientRect(), place.getBoundingClientRect()];
  const now = picture.width / size.width;
  const frame = { x: (box.left - picture.left) / now, y: (box.top - picture.top) / now, width: place.clientWidth / now, height: place.clientHeight / now };
  for (const [name, value] of Object.entries(frame)) map.lastElementChild.setAttribute(name, value);
}

function drawMap(figure, map) {
  const spots = [...figure.querySelectorAll(".graph-node")].map((node) => {
    const spot = node.querySelector("rect:not(.graph-under)").cloneNode();
    spot.setAttribute("class", `is-${node.dataset.state}`);
    return spot;
  });
  const frame = document.createElementNS(SVG, "rect");
  frame.setAttribute("class", "graph-map-view");
  map.replaceChildren(...spots, frame);
}

function travel(event) {
  const map = event.target.closest?.(".graph-map");
  if (!map || !(event.buttons & 1)) return;
  const figure = map.closest("[data-graph]");
  const [box, place, picture] = [map.getBoundingClientRect(), placeIn(figure), pictureIn(figure).getBoundingClientRect()];
  kept.get(figure).moved = true;
  place.scrollLeft = ((event.clientX - box.left) / box.width) * picture.width - place.clientWidth / 2;
  place.scrollTop = ((event.clientY - box.top) / box.height) * picture.height - place.clientHeight / 2;
  event.preventDefault();
}
document.addEventListener("pointerdown", travel);
document.addEventListener("pointermove", travel);

// What the server draws again keeps its scale and place; another graph, as after unfolding, is fitted.
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const figure = target.closest("[data-graph]");
    if (figure) (kept.get(figure).moved ? showMap : begin)(figure);
  }
});

function look() {
  for (const figure of figures()) {
    if (!pictureIn(figure)) continue;
    const { width, height } = sizeOf(figure);
    const steps = [...figure.querySelectorAll(".graph-node")].map((node) => node.dataset.step).join("\n");
    const active = activeIn(figure)?.dataset.step;
    const before = kept.get(figure);
    if (!before) {
      placeIn(figure).addEventListener("scroll", () => showMap(figure), { passive: true });
      resized.observe(placeIn(figure));
    }
    const moved = Boolean(before?.steps === steps && before.moved);
    kept.set(figure, { width, height, steps, active, moved });
    figure.querySelector(".graph-map").replaceChildren();
    const same = before?.width === width && before?.height === height;
    if (!moved && (!same || before.active !== active)) begin(figure);
    else if (!same) resize(figure, before);
    else showMap(figure);
  }
}

// A longer text widened the boxes: the scale stays.
function resize(figure, before) {
  const [picture, now] = [pictureIn(figure), sizeOf(figure)];
  const scale = Number(picture.getAttribute("width")) / before.width;
  picture.setAttribute("width", now.width * scale);
  picture.setAttribute("height", now.height * scale);
  showMap(figure);
}

window.htmx?.registerExtension("keep-zoom", {
  htmx_before_morph_attr: (element, { attrName }) => !(["width", "height"].includes(attrName) && element.matches("[data-graph] .graph-picture")),
});
document.addEventListener("htmx:after:swap", look);
look();

// A chart says what is under the pointer, and leads to its list: the slot's name and values on a card, a click goes
// there. The arrow keys move along a chart that has the focus. Without this there are the totals and the tables.
const page = document.querySelector("[data-slots]");
const split = (text) => (text ? text.split("|") : []);
const names = split(page?.dataset.slots);
const times = split(page?.dataset.times);
const card = Object.assign(document.createElement("div"), { className: "chart-card", hidden: true });
const mark = Object.assign(document.createElement("div"), { className: "chart-at", hidden: true });
card.setAttribute("role", "status");

let chart = null;
let place = 0;

const address = () => {
  const said = split(chart.dataset.chart)[place];
  return chart.dataset.to && said ? chart.dataset.to.replace("%2A", encodeURIComponent(times[place])) : "";
};

function show(found, at) {
  chart = found;
  place = Math.min(Math.max(at, 0), names.length - 1);
  const box = chart.querySelector(".chart-picture").getBoundingClientRect();
  const wide = box.width / names.length;
  const href = address();
  const strong = Object.assign(document.createElement("strong"), { textContent: split(chart.dataset.chart)[place] || "None" });
  const more = Object.assign(document.createElement("span"), { className: "chart-more", textContent: href ? "Click for the list" : "" });
  card.replaceChildren(Object.assign(document.createElement("span"), { textContent: names[place] }), strong, more);
  chart.classList.toggle("leads", Boolean(href));
  if (!card.isConnected) document.body.append(mark, card);
  mark.hidden = false;
  card.hidden = false;
  Object.assign(mark.style, { left: `${box.left + scrollX + place * wide}px`, top: `${box.top + scrollY}px`, width: `${wide}px`, height: `${box.height}px` });
  const middle = box.left + (place + 0.5) * wide - card.offsetWidth / 2;
  card.style.left = `${scrollX + Math.min(Math.max(middle, 4), document.documentElement.clientWidth - card.offsetWidth - 4)}px`;
  card.style.top = `${scrollY + Math.max(box.top - card.offsetHeight - 6, 4)}px`;
}

function hide() {
  card.hidden = true;
  mark.hidden = true;
  chart = null;
}

function go(event) {
  const href = chart && address();
  if (!href) return;
  if (event.ctrlKey || event.metaKey) open(href, "_blank", "noopener");
  else location.assign(href);
}

const slot = (picture, x) => {
  const box = picture.getBoundingClientRect();
  return Math.floor(((x - box.left) / box.width) * names.length);
};

for (const found of page?.querySelectorAll("[data-chart]") ?? []) {
  const picture = found.querySelector(".chart-picture");
  picture.setAttribute("tabindex", "0");
  picture.addEventListener("pointermove", (event) => show(found, slot(picture, event.clientX)));
  picture.addEventListener("pointerleave", hide);
  picture.addEventListener("blur", hide);
  picture.addEventListener("click", (event) => {
    // A finger has no pointer to look with: its first touch shows, its second goes.
    const at = slot(picture, event.clientX);
    const known = chart === found && place === at && event.pointerType !== "touch";
    if (known || found.dataset.touched === String(at)) go(event);
    else show(found, at);
    if (event.pointerType === "touch") found.dataset.touched = at;
  });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      event.preventDefault();
      show(found, chart === found ? place + step : names.length - 1);
    } else if (event.key === "Enter") go(event);
    else if (event.key === "Escape") hide();
  });
}

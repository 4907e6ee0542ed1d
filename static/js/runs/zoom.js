// A stretch of the timeline is chosen by drawing over it; the address then names it, as the buttons' links do.
const LEAST = 6;

// The axis has several scales where waiting is folded: points are [seconds, place].
function secondsAt(points, place) {
  const n = Math.max(1, points.findIndex(([, at]) => at >= place));
  const [[low, from], [high, to]] = [points[n - 1], points[n]];
  return low + ((place - from) / (to - from || 1)) * (high - low);
}

function begin(event) {
  const bars = event.target.closest("[data-zoom] .timeline-bars");
  if (!bars || event.button) return;
  const place = bars.closest("[data-zoom]");
  const box = bars.getBoundingClientRect();
  const points = place.dataset.points.split(" ").map((point) => point.split(":").map(Number));
  const from = event.clientX;
  const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  mark.setAttribute("class", "timeline-chosen");
  mark.setAttribute("height", "10");

  const edges = (x) => [Math.min(from, x), Math.max(from, x)].map((at) => Math.min(Math.max((at - box.left) / box.width, 0), 1));
  const draw = (now) => {
    const [left, right] = edges(now.clientX);
    mark.setAttribute("x", left * 1000);
    mark.setAttribute("width", (right - left) * 1000);
    if (!mark.isConnected && Math.abs(now.clientX - from) > LEAST) bars.append(mark);
  };
  const end = (now) => {
    removeEventListener("pointermove", draw);
    removeEventListener("pointerup", end);
    removeEventListener("pointercancel", cancel);
    mark.remove();
    if (Math.abs(now.clientX - from) <= LEAST) return;
    const [left, right] = edges(now.clientX);
    const url = new URL(location.href);
    url.searchParams.set("from", secondsAt(points, left * 1000).toFixed(3));
    url.searchParams.set("to", secondsAt(points, right * 1000).toFixed(3));
    url.hash = "run-timeline";
    location.assign(url);
  };
  const cancel = () => {
    removeEventListener("pointermove", draw);
    removeEventListener("pointerup", end);
    mark.remove();
  };
  event.preventDefault();
  addEventListener("pointermove", draw);
  addEventListener("pointerup", end);
  addEventListener("pointercancel", cancel, { once: true });
}

document.addEventListener("pointerdown", begin);

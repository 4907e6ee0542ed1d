// The files of a patch that one has viewed: folded, and remembered by this browser until their changes change.
const KEY = "wfdash_viewed";
const MOST = 1000;

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return new Set(Array.isArray(kept) ? kept : []);
  } catch {
    return new Set();
  }
}

function keep(viewed) {
  try {
    localStorage.setItem(KEY, JSON.stringify([...viewed].slice(-MOST)));
  } catch {
    // A browser that keeps nothing: what is viewed lasts as long as the page.
  }
}

const boxes = (set) => [...set.querySelectorAll(":scope > .diff-file > .diff-viewed > input")];
const markOf = (box) => box.closest(".diff-file").dataset.file;

function count(set) {
  const all = boxes(set);
  const done = all.filter((box) => box.checked);
  set.querySelector("[data-viewed-count]").textContent = done.length ? `${done.length} of ${all.length} viewed` : "";
  const marks = new Set(done.map(markOf));
  for (const link of set.querySelectorAll(".diff-list a")) link.classList.toggle("is-viewed", marks.has(link.dataset.file));
}

function show() {
  const viewed = read();
  for (const set of document.querySelectorAll(".diff-set:has(> .diff-file ~ .diff-file)")) {
    for (const box of boxes(set)) {
      const label = box.parentElement;
      if ("ready" in label.dataset) continue;
      label.dataset.ready = "";
      box.checked = viewed.has(markOf(box));
      if (box.checked) label.previousElementSibling.open = false;
    }
    count(set);
  }
}

document.addEventListener("change", ({ target }) => {
  if (!target.matches?.("[data-viewed]")) return;
  const viewed = read();
  viewed.delete(markOf(target));
  if (target.checked) viewed.add(markOf(target));
  keep(viewed);
  target.parentElement.previousElementSibling.open = !target.checked;
  count(target.closest(".diff-set"));
});

// A link to a file opens it, and puts the focus on its name.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.(".diff-list a");
  const place = link && document.getElementById(link.getAttribute("href").slice(1));
  if (!place) return;
  event.preventDefault();
  const file = place.closest("details");
  file.open = true;
  file.scrollIntoView({ block: "start" });
  file.querySelector("summary").focus({ preventScroll: true });
  history.replaceState(null, "", link.hash);
});

document.addEventListener("htmx:after:swap", show);
show();

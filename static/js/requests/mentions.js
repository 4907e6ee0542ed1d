// Completes @names in <textarea data-mentions="address of the names">: arrows choose, Enter or Tab takes, Escape closes.
const MOST = 6;
const START = /(?:^|[\s(])@([\w.+-]*)$/;
const known = new Map();

async function namesOf(area) {
  const { mentions } = area.dataset;
  if (!known.has(mentions)) {
    known.set(mentions, fetch(mentions).then((answer) => (answer.ok ? answer.json() : { names: [] })).catch(() => ({ names: [] })));
  }
  return (await known.get(mentions)).names;
}

function close(area) {
  area.nextElementSibling?.matches(".mention-list") && area.nextElementSibling.remove();
  for (const name of ["aria-activedescendant", "aria-controls"]) area.removeAttribute(name);
}

function take(area, name) {
  const end = area.selectionStart;
  const begin = area.value.lastIndexOf("@", end - 1);
  area.setRangeText(`@${name} `, begin, end, "end");
  area.dispatchEvent(new Event("input", { bubbles: true }));
  close(area);
}

function choose(area, index) {
  const items = [...area.nextElementSibling.children];
  items.forEach((item, at) => item.setAttribute("aria-selected", String(at === index)));
  area.setAttribute("aria-activedescendant", items[index].id);
}

function draw(area, names) {
  close(area);
  if (!names.length) return;
  const list = document.createElement("ul");
  Object.assign(list, { className: "mention-list", id: "mention-list" });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "People to mention");
  list.append(...names.map((name, at) => {
    const item = Object.assign(document.createElement("li"), { textContent: name, id: `mention-${at}` });
    item.setAttribute("role", "option");
    item.addEventListener("mousedown", (event) => { event.preventDefault(); take(area, name); });
    return item;
  }));
  area.after(list);
  if (CSS.supports("position-area: block-end")) {
    area.style.anchorName = "--mentions"; // over everything: no box cuts it off
    list.popover = "manual";
    list.showPopover();
  }
  area.setAttribute("aria-controls", list.id);
  choose(area, 0);
}

document.addEventListener("input", async ({ target: area }) => {
  if (!area.matches?.("[data-mentions]")) return;
  const found = START.exec(area.value.slice(0, area.selectionStart));
  if (!found) return close(area);
  const begun = found[1].toLowerCase();
  const names = await namesOf(area);
  draw(area, names.filter((name) => name.toLowerCase().startsWith(begun) && name !== found[1]).slice(0, MOST));
});

document.addEventListener("keydown", (event) => {
  const area = event.target;
  const list = area.matches?.("[data-mentions]") ? area.nextElementSibling : null;
  if (!list?.matches(".mention-list") || event.isComposing) return;
  const items = [...list.children];
  const at = items.findIndex((item) => item.getAttribute("aria-selected") === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) choose(area, (at + step + items.length) % items.length);
  else if (event.key === "Enter" || event.key === "Tab") take(area, items[at].textContent);
  else if (event.key === "Escape") close(area);
  else return;
  event.preventDefault();
});

document.addEventListener("focusout", ({ target }) => { if (target.matches?.("[data-mentions]")) close(target); });

// A value's tree is searched, folded by level, and asked for the path of a row (a JSON Pointer) and what is there.
// Without this it folds row by row.
import { counted, number } from "../site/time.js";

const MOST = 1000;
const FOUND = "tree-found";

const treeOf = (node) => node.closest(".json-part").querySelector(".tree");

// How many folds a fold is in.
function depth(fold, tree) {
  let count = 0;
  for (let node = fold; node !== tree; node = node.parentElement) count += node.matches(".v-fold");
  return count;
}

function unfold(part, levels) {
  const tree = treeOf(part);
  for (const fold of tree.querySelectorAll(".v-fold")) fold.open = depth(fold, tree) <= levels;
}

function reveal(node, tree) {
  for (let fold = node.parentElement.closest(".v-fold"); fold && tree.contains(fold); fold = fold.parentElement.closest(".v-fold")) fold.open = true;
}

function hitsOf(tree, words) {
  const hits = [];
  const walker = document.createTreeWalker(tree, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && hits.length < MOST) {
    const { currentNode: node } = walker;
    const text = node.data.toLowerCase();
    if (!node.parentElement.closest(".v-key, .v-text, .v-number, .v-word, .v-long")) continue;
    for (let at = text.indexOf(words); at >= 0 && hits.length < MOST; at = text.indexOf(words, at + words.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, Math.min(at + words.length, node.length));
      hits.push(range);
    }
  }
  return hits;
}

function search(input) {
  const tree = treeOf(input);
  const words = input.value.trim().toLowerCase();
  const hits = words ? hitsOf(tree, words) : [];
  globalThis.CSS?.highlights?.set(FOUND, new Highlight(...hits));
  for (const { startContainer } of hits) reveal(startContainer, tree);
  const count = hits.length >= MOST ? `${number(MOST)} matches or more` : counted(hits.length, "match", "matches");
  input.parentElement.querySelector("[data-tree-count]").textContent = words ? count : "";
  input.hits = hits;
  input.hit = -1;
}

// The next match, in sight.
function next(input, by) {
  const { hits = [] } = input;
  if (!hits.length) return;
  input.hit = (Math.max(input.hit, by < 0 ? 0 : -1) + by + hits.length) % hits.length;
  const place = hits[input.hit].startContainer.parentElement;
  place.scrollIntoView({ block: "center" });
  select(place.closest("li"));
  input.parentElement.querySelector("[data-tree-count]").textContent = `${input.hit + 1} of ${hits.length}`;
}

function keyOf(row) {
  const key = row.querySelector(":scope > .v-key, :scope > details > summary > .v-key");
  return key?.dataset.key ? JSON.parse(key.dataset.key) : key?.textContent ?? "";
}

function pointerOf(row, tree) {
  const keys = [];
  for (let one = row; one && tree.contains(one); one = one.parentElement.closest("li")) keys.unshift(keyOf(one));
  return keys.map((key) => `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function select(row) {
  const part = row?.closest(".json-part");
  const bar = part?.querySelector("[data-tree-path]");
  if (!bar) return;
  part.querySelector(".is-chosen")?.classList.remove("is-chosen");
  row.classList.add("is-chosen");
  const pointer = pointerOf(row, treeOf(part));
  bar.hidden = false;
  bar.querySelector("code").textContent = pointer;
  bar.querySelector("[data-copy]").dataset.copy = pointer;
  const value = bar.querySelector("[data-copy-from]");
  if (value) value.dataset.copyFrom = `${part.dataset.jsonAt}?${new URLSearchParams({ at: pointer })}`;
}

// Rows that are not folded away, for the arrows.
function step(tree, by) {
  const rows = [...tree.querySelectorAll("li")].filter((row) => row.getClientRects().length);
  const chosen = rows.indexOf(tree.querySelector(".is-chosen"));
  const row = rows[Math.min(Math.max(chosen + by, 0), rows.length - 1)];
  select(row);
  row?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("input", ({ target }) => {
  if (target.matches?.("[data-tree-search]")) search(target);
  if (target.matches?.("[data-tree-level]")) unfold(target, Number(target.value));
});

document.addEventListener("click", ({ target }) => {
  const row = target.closest?.(".json-part .tree li");
  if (row) select(row);
});

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (target.matches?.("[data-tree-search]") && key === "Enter") {
    event.preventDefault();
    next(target, event.shiftKey ? -1 : 1);
  } else if (target.closest?.(".json-part .tree") && (key === "ArrowDown" || key === "ArrowUp")) {
    event.preventDefault();
    event.stopPropagation();
    step(target.closest(".tree"), key === "ArrowDown" ? 1 : -1);
  }
}, true);

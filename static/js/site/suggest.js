// Suggests what a filter can say: keys, then the values of the key one is typing. A combobox; without this, the help says it.
const input = document.querySelector("[data-suggest]");
let words = null;
let box = null;
let chosen = -1;

const load = async () => { words ??= await (await fetch(input.dataset.suggest, { headers: { accept: "application/json" } })).json(); };

// The part under the caret: from the last space outside quotes to the caret.
function part() {
  const before = input.value.slice(0, input.selectionStart ?? input.value.length);
  const from = (before.match(/^(?:"[^"]*"|[^"\s]|"[^"]*$|\s)*?(?=\S*$)/)?.[0] ?? "").length;
  const text = before.slice(Math.max(from, before.lastIndexOf(" ") + 1));
  const minus = text.startsWith("-") ? "-" : "";
  return { text: text.slice(minus.length), start: before.length - text.length + minus.length, end: before.length };
}

function offers() {
  const { text } = part();
  const [key, ...rest] = text.split(":");
  if (!rest.length) return words.keys.filter((one) => one.key.startsWith(key.toLowerCase())).map((one) => ({ put: `${one.key}:`, show: one.example, hint: one.meaning }));
  const [, head, value] = rest.join(":").match(/^((?:[^,]*,)*)(.*)$/);
  const found = (words.values[key.toLowerCase()] ?? []).filter((one) => `${one.value} ${one.label}`.toLowerCase().includes(value.toLowerCase()) && one.value !== value);
  return found.slice(0, 12).map((one) => ({ put: `${key}:${head}${one.value} `, show: one.value, hint: one.label }));
}

function close() {
  box?.remove();
  box = null;
  chosen = -1;
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}

function take(offer) {
  const { start, end } = part();
  input.value = input.value.slice(0, start) + offer.put + input.value.slice(end).trimStart();
  input.setSelectionRange(start + offer.put.length, start + offer.put.length);
  open();
}

function line(offer, number) {
  const row = Object.assign(document.createElement("li"), { id: `suggestion-${number}` });
  row.setAttribute("role", "option");
  row.append(Object.assign(document.createElement("code"), { textContent: offer.show }));
  if (offer.hint) row.append(Object.assign(document.createElement("span"), { textContent: offer.hint }));
  row.addEventListener("pointerdown", (event) => { event.preventDefault(); take(offer); });
  return row;
}

function open() {
  close();
  const found = words ? offers() : [];
  if (!found.length || document.activeElement !== input) return;
  box = Object.assign(document.createElement("ul"), { id: "suggestions", className: "suggestions" });
  box.setAttribute("role", "listbox");
  box.setAttribute("aria-label", "Suggestions");
  box.append(...found.map(line));
  box.found = found;
  input.after(box);
  input.setAttribute("aria-expanded", "true");
}

function point(step) {
  const rows = [...box.children];
  rows[chosen]?.removeAttribute("aria-selected");
  chosen = (chosen + step + rows.length + (chosen < 0 && step < 0 ? 1 : 0)) % rows.length;
  rows[chosen].setAttribute("aria-selected", "true");
  rows[chosen].scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", rows[chosen].id);
}

function press(event) {
  if (event.isComposing) return;
  if (event.key === "Escape" && box) { event.preventDefault(); event.stopPropagation(); return close(); }
  if (event.key === "ArrowDown" && !box) return open();
  if (!box) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); point(event.key === "ArrowDown" ? 1 : -1); }
  if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) { event.preventDefault(); take(box.found[chosen]); }
}

if (input) {
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", "suggestions"]]) input.setAttribute(name, value);
  input.addEventListener("focus", () => load().then(open).catch(() => {}));
  input.addEventListener("input", () => words && open());
  input.addEventListener("keydown", press);
  input.addEventListener("blur", close);
}

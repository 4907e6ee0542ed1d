// The rows of a list, in order: what [data-nav] marks, or else the links that lead from its rows.
const MARKED = "[data-nav]";
const ROWS = "main tbody .lead a, main .rows > li > a.row-link";

export function places() {
  const marked = document.querySelectorAll(MARKED);
  const all = marked.length ? [...marked] : [...document.querySelectorAll(ROWS)];
  return all.filter((element) => element.checkVisibility());
}

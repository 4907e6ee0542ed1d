// The list stays where it was scrolled to while one goes from card to card.
const box = document.querySelector("[data-keep-scroll]");
const key = `wfdash_scroll ${box?.querySelector("[data-live-list]")?.dataset.address}`;
if (box) {
  box.scrollTop = Number(sessionStorage.getItem(key) ?? 0);
  const here = box.querySelector("[data-nav][aria-current]");
  const [top, bottom] = here ? [here.offsetTop - box.offsetTop, here.offsetTop - box.offsetTop + here.offsetHeight] : [0, 0];
  if (here && (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight)) box.scrollTop = top - box.clientHeight / 3;
  addEventListener("pagehide", () => sessionStorage.setItem(key, String(box.scrollTop)));
}

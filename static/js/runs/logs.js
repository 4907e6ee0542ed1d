// The log follows its end while new lines come, unless its reader has scrolled up.
const NEAR_END = 40;
let follows = true;

const list = () => document.querySelector("[data-follow]");
const atEnd = (place) => place.scrollTop + place.clientHeight >= place.scrollHeight - NEAR_END;

function toEnd() {
  const place = list();
  if (place && document.querySelector("[data-live-page]")) place.scrollTop = place.scrollHeight;
}

document.addEventListener("scroll", ({ target }) => {
  if (target === list()) follows = atEnd(target);
}, true);
document.addEventListener("htmx:after:swap", () => follows && toEnd());
toEnd();

// Menus are <details data-menu>: they work without this; it closes them on Escape and on a click elsewhere.
const open = () => document.querySelectorAll("details[data-menu][open]");

document.addEventListener("click", (event) => {
  for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of open()) {
    event.preventDefault(); // this press has done its work: nothing else is left by it
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// Tabs that do not fit scroll sideways: begin with the current one in view.
for (const tab of document.querySelectorAll(".tabs > [aria-current]")) {
  const tabs = tab.parentElement.getBoundingClientRect();
  const here = tab.getBoundingClientRect();
  if (here.left < tabs.left || here.right > tabs.right) tab.parentElement.scrollLeft += here.left - tabs.left - (tabs.width - here.width) / 2;
}

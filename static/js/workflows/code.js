// The code of a workflow: folded where there is no room beside the form, opened by a link to one of its lines.
const panel = document.querySelector("[data-code]");

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!panel || !target || !panel.contains(target)) return;
  panel.open = true;
  target.scrollIntoView({ block: "center" });
}

if (panel && matchMedia("(max-width: 860px)").matches) panel.open = false;
addEventListener("hashchange", openTarget);
openTarget();

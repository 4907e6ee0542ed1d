// The run's overview as a workspace: a link to another state of it (a step, what is unfolded, a colour) changes the page
// in place and its address with it; back and forward do the same. Without this they are ordinary links.
const live = () => document.getElementById("run-live");
const search = (address) => new URL(address, location.href).search;
let shown = location.search;

async function show(url) {
  const asked = new URL(url);
  asked.searchParams.set("fragment", "live");
  shown = url.search;
  const answer = await fetch(asked, { headers: { accept: "text/html" } });
  if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
  const text = await answer.text();
  if (shown !== url.search) return; // another link has been followed since
  await window.htmx.swap({ sourceElement: live(), target: live(), swap: "outerMorph", text });
}

// The panel that opened is read next; from one that closed, the step in the graph.
function focus(url, before) {
  const step = url.searchParams.get("step");
  if (step && url.hash === "#run-step") return document.getElementById("run-step-title")?.focus();
  if (before && !step) document.querySelector(`#run-graph [data-step="${CSS.escape(before)}"]`)?.focus({ preventScroll: true });
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("#run-live a[href]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.getAttribute("href"), location.href);
  if (url.pathname !== location.pathname || url.origin !== location.origin || !window.htmx) return;
  event.preventDefault();
  const before = new URL(location.href).searchParams.get("step");
  try {
    await show(url);
    history.pushState({}, "", url);
    focus(url, before);
  } catch {
    location.assign(url);
  }
});

addEventListener("popstate", () => {
  if (location.search !== shown) show(new URL(location.href)).catch(() => location.reload());
});

// A refresh that was asked for before the address changed comes too late.
document.addEventListener("htmx:before:swap", (event) => {
  const { ctx } = event.detail;
  if (event.target !== live() || !ctx.request?.action) return;
  if (search(ctx.request.action) !== search(live().getAttribute("hx-get"))) event.preventDefault();
});

// The settings' part for this browser: asks for the permission to show messages on the desktop, and says what it is.
const part = document.querySelector("[data-browser-notices]");
const WORDS = {
  granted: "Desktop notifications are enabled when wfdash is in the background.",
  denied: "Notifications are blocked. Allow them in your browser's settings for this site.",
};

function show() {
  const state = Notification.permission;
  if (WORDS[state]) part.querySelector("[data-browser-words]").textContent = WORDS[state];
  part.querySelector("[data-browser-ask]").hidden = state !== "default";
}

if (part && "Notification" in window) {
  part.hidden = false;
  part.querySelector("[data-browser-ask]").addEventListener("click", () => Notification.requestPermission().then(show));
  show();
}

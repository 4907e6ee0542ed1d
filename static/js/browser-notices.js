// The settings' part for this browser: asks for the permission to show messages on the desktop, and says what it is.
const part = document.querySelector("[data-browser-notices]");
const WORDS = {
  granted: "This browser shows a message on your desktop when something needs you and the tab of wfdash is not in front.",
  denied: "This browser does not allow messages from here. You can change that in its settings for this site.",
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

// The theme lives in a cookie, so that the server writes it into <html> and the first paint is right.
const COOKIE = "wfdash_theme";

const chosen = () => document.documentElement.dataset.theme ?? "auto";

function show() {
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === chosen()));
  }
}

// The bars of a phone have the colour of the page.
const BARS = { light: "#f7f6f2", dark: "#121516" };
function colourBars(theme) {
  for (const meta of document.querySelectorAll('meta[name="theme-color"]')) {
    meta.content = BARS[theme] ?? (meta.media.includes("dark") ? BARS.dark : BARS.light);
  }
}

function choose(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  colourBars(theme);
  document.cookie = `${COOKIE}=${theme}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  show();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-theme-choice]");
  if (button) choose(button.dataset.themeChoice);
});

for (const part of document.querySelectorAll("[data-theme-switch]")) part.hidden = false;
show();

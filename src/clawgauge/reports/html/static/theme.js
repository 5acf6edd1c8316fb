// Light, dark, or as the system has it. Remembered where the browser lets a file remember.

const THEMES = ["auto", "light", "dark"];
const THEME_SIGNS = { auto: "◐", light: "○", dark: "●" };

function setUpTheme() {
  let theme = "auto";
  try {
    theme = localStorage.getItem("clawgauge-theme") || "auto";
  } catch {
    // A browser may forbid it to files; then every visit begins as the system has it.
  }
  applyTheme(THEMES.includes(theme) ? theme : "auto");
  byId("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    applyTheme(next);
    try {
      localStorage.setItem("clawgauge-theme", next);
    } catch {
      // As above.
    }
  });
}

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").replaceChildren(html("span", { "aria-hidden": "true" }, `${THEME_SIGNS[theme]} `), `Theme: ${theme}`);
}

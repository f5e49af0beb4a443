// What every member page does by itself: theme, menus, dialogs.

const root = document.documentElement;

function isDark() {
  return (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
}

function switchTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("kaizen-theme", root.dataset.theme);
  } catch {
    // Storage is closed: the choice holds for this page only.
  }
  dispatchEvent(new CustomEvent("kaizen:theme"));
}

// A menu closes when something else, or one of its entries, is pressed. This comes before the entry
// acts, so that a dialog that it opens gives the focus back to the menu's own button.
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details.menu[open]")) {
    const chosen = open.contains(event.target) && event.target.closest("button.opt") !== null;
    if (chosen) open.querySelector("summary").focus();
    if (chosen || !open.contains(event.target)) open.open = false;
  }
}, { capture: true });

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-theme-switch], [data-opens], [data-closes]");
  if (target === null) return;
  if (target.matches("[data-theme-switch]")) switchTheme();
  if (target.matches("[data-opens]")) {
    const dialog = document.getElementById(target.dataset.opens);
    if (dialog !== null) {
      event.preventDefault();
      dialog.showModal();
    }
  }
  if (target.matches("[data-closes]")) target.closest("dialog").close();
});

// Escape closes an open menu first, and only then means anything else on the page.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = document.querySelector("details.menu[open]");
  if (open === null) return;
  event.stopImmediatePropagation();
  event.preventDefault();
  open.open = false;
  open.querySelector("summary").focus();
}, { capture: true });

// Runs before the first paint: apply the theme that was chosen here; without one the system decides.
try {
  const chosen = localStorage.getItem("kaizen-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is closed to this page: the system's theme is right.
}

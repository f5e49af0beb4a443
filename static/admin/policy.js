// Marks what was changed and not saved, counts it, and asks before it would be lost. The page works without.
const form = document.querySelector("[data-policy]");
const count = form?.querySelector("[data-count]");
const quiet = count?.textContent;
let sending = false;

const changed = () => [...form.querySelectorAll("input[type=radio]:checked:not([data-was])")];

function show() {
  const now = new Set(changed().map((input) => input.closest("fieldset")));
  for (const tri of form.querySelectorAll("fieldset")) tri.toggleAttribute("data-changed", now.has(tri));
  if (count) count.textContent = now.size === 0 ? quiet : `${now.size} ${now.size === 1 ? "change" : "changes"}, not saved.`;
}

if (form) {
  form.addEventListener("change", show);
  // The browser puts values back after the event.
  form.addEventListener("reset", () => setTimeout(show));
  form.addEventListener("submit", () => { sending = true; });
  addEventListener("pageshow", () => { sending = false; show(); });
  addEventListener("beforeunload", (event) => { if (!sending && changed().length > 0) event.preventDefault(); });
}

// Keys of the review page: J and K walk through the files, A and R open a decision, Escape closes it.
// Single letters work only while no field has the focus.
const page = document.querySelector("[data-review]");
const files = () => [...page.querySelectorAll("[data-file]")];

const inField = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

function walk(step) {
  const all = files();
  if (!all.length) return;
  const at = all.findIndex((file) => file.contains(document.activeElement));
  const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
  next.open = true;
  next.querySelector("summary").focus();
  next.scrollIntoView({ block: "start" });
}

function ask(key) {
  const question = page.querySelector(`[data-key="${key}"]`);
  if (!question) return;
  question.open = true;
  // The button that decides never has the focus by itself.
  (question.querySelector("textarea") ?? question.querySelector("summary")).focus();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    for (const open of page.querySelectorAll("[data-key][open]")) {
      open.open = false;
      open.querySelector("summary").focus();
    }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target)) return;
  const key = event.key.toLowerCase();
  if (key === "j" || key === "k") walk(key === "j" ? 1 : -1);
  else if (key === "a" || key === "r") ask(key);
  else return;
  event.preventDefault();
});

// A link to a closed file opens it.
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (target?.matches("details")) target.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();

// The theme has things that only a pointer can press. They get a place in the tab order and their keys.

addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll("a[x-on\\:click]:not([href]), span[x-on\\:click], div[x-on\\:click]")) {
    const bare = element.textContent.trim() !== "" && element.querySelector("a, button, input, select, textarea") === null;
    if (!bare || element.closest("a[href], button, label") !== null) continue;
    element.tabIndex = 0;
    element.setAttribute("role", "button");
    // A picture beside words is no part of the name; one that stands alone is all the name there is.
    const pictures = [...element.querySelectorAll(".material-symbols-outlined")];
    const pictured = pictures.map((picture) => picture.textContent.trim()).join("");
    if (element.textContent.replace(/\s+/g, "") !== pictured) for (const picture of pictures) picture.setAttribute("aria-hidden", "true");
    element.addEventListener("keydown", (event) => {
      if (event.target !== element || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      element.click();
    });
  }
});

// A box that finds rows while one types stands in for its field, and has to carry the field's name. It comes
// when the theme's own scripts are ready, which may be after everything has loaded.
function nameBoxes() {
  for (const field of document.querySelectorAll("select.select2-hidden-accessible")) {
    const label = field.labels[0]?.textContent.replace("*", "").trim();
    const box = field.parentElement.querySelector(".select2-selection");
    if (!label || !box) continue;
    for (const part of [box, ...box.querySelectorAll("[role=textbox]")]) {
      if (part.getAttribute("aria-label") !== label) part.setAttribute("aria-label", label);
    }
  }
}
addEventListener("DOMContentLoaded", () => {
  nameBoxes();
  new MutationObserver(nameBoxes).observe(document.body, { childList: true, subtree: true });
});

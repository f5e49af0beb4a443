// The open room among the others in the navigation: whether an agent works there.

import { h } from "../dom.js";

/** Show the mark while an agent works, and take it away when the last run has ended. */
export function markWork(place, works) {
  if (!place) return;
  const mark = place.querySelector(".pulse");
  if (works && !mark) place.append(h("span", { class: "pulse", role: "img", "aria-label": "an agent is working" }));
  if (!works && mark) mark.remove();
}

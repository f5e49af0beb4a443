// How is a piece of page made? Elements from values; text only ever becomes text.

/**
 * Make an element. `props` holds attributes, `class`, `data` (dataset), and `on` (listeners);
 * null, undefined and false are left out. Children are nodes or text, lists are flattened.
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      Object.assign(element.dataset, value);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Make an icon that screen readers skip. */
export function icon(name, extra = "") {
  return h("i", { class: `i i-${name} ${extra}`.trim(), "aria-hidden": "true" });
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Set an attribute, or remove it where the value is null or false. */
export function attribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

/**
 * Bring the children of `parent` in line with `wanted`, a list of `{key, make, update}`.
 * An element whose key stays keeps its identity, and with it focus, scroll and open parts.
 */
export function reconcile(parent, wanted) {
  const known = new Map();
  for (const child of [...parent.children]) {
    if (child.kzKey === undefined) continue;
    known.set(child.kzKey, child);
  }
  const keep = new Set(wanted.map((entry) => entry.key));
  for (const [key, child] of known) {
    if (!keep.has(key)) {
      child.remove();
      known.delete(key);
    }
  }
  let place = parent.firstElementChild;
  for (const entry of wanted) {
    let child = known.get(entry.key);
    if (child === undefined) {
      child = entry.make();
      child.kzKey = entry.key;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    if (entry.update) entry.update(child);
  }
}

/** Set an element's text when it differs, so that selections and live regions are left alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Tell assistive technology one finished thing, without moving anybody. */
export function announce(text) {
  const region = document.getElementById("announcer");
  if (region === null) return;
  region.append(h("p", null, text));
  while (region.children.length > 4) region.firstElementChild.remove();
}

/** Read a value that the server embedded as JSON. */
export function embedded(id) {
  const node = document.getElementById(id);
  return node === null ? null : JSON.parse(node.textContent);
}

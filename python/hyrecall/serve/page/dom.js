// Builds elements. A text becomes a text node and nothing else, so stored markup is shown, never run.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return node;
}

/** An HTML element. An attribute whose value is a function is a listener of that event. */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, made as `el` makes one of HTML. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

/** Replaces what an element holds. */
export function show(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
}

/** The address of the recall that is shown, or of the empty form. */
export const recallAddress = () => document.querySelector('[data-view="recall"]').hash;

/** A link to a view of this page; its parts are encoded, so no id leads elsewhere. */
export function link(parts, attributes, ...children) {
  return el("a", { href: `#/${parts.map(encodeURIComponent).join("/")}`, ...attributes }, ...children);
}

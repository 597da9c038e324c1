// Shortcuts. Single letters work outside of fields, and can be switched off (WCAG 2.1.4).
import { byId, el, recallAddress, show } from "./dom.js";

const LIST = [
  ["/", "write a query"],
  ["j, k", "next hit, previous hit"],
  ["e", "why this hit has its score"],
  ["Enter", "on a hit: its versions and links"],
  ["b", "choose a recipe to set beside"],
  ["r, f", "recall, files"],
  ["t", "token"],
  ["?", "this list"],
  ["Esc", "leave a field or close a window"],
];

const isField = (node) => node instanceof HTMLElement && (node.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName));

function step(forwards) {
  const hits = [...document.querySelectorAll("li.hit")].filter((hit) => hit.offsetParent !== null);
  if (!hits.length) return;
  const at = hits.indexOf(document.activeElement?.closest("li.hit"));
  const next = hits[Math.min(Math.max(at + (forwards ? 1 : -1), 0), hits.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

/** Listens for the shortcuts; `open` shows a dialog by its id. */
export function startKeys(open) {
  show(byId("keys"), LIST.map(([keys, what]) => el("div", null, el("dt", null, keys.split(", ").map((one, at) => [at ? " " : "", el("kbd", null, one)])), el("dd", null, what))));
  const actions = {
    "/": () => { location.hash = recallAddress(); byId("query").focus(); byId("query").select(); },
    j: () => step(true),
    k: () => step(false),
    e: () => {
      const details = document.activeElement?.closest("li.hit")?.querySelector("details.why");
      if (details) details.open = !details.open;
    },
    b: () => byId("beside").focus(),
    r: () => { location.hash = recallAddress(); },
    f: () => { if (!document.querySelector('[data-view="files"]').hidden) location.hash = "#/files/"; },
    t: () => open("token-dialog"),
    "?": () => open("keys-dialog"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { target, key } = event;
    if (key === "Escape" && isField(target)) {
      event.preventDefault(); // or the browser empties the query
      target.blur();
      return;
    }
    if (key === "Enter" && target.matches?.("li.hit")) { target.querySelector("a.id")?.click(); return; }
    if (isField(target) || !byId("single-keys").checked || !actions[key]) return;
    event.preventDefault();
    actions[key]();
  });
}

// Two recipes side by side: which hits both have, how their ranks differ, and lines between them.
import { key, spanOf } from "./bars.js";
import { el, show, svg } from "./dom.js";
import { duration, howSure, plural } from "./format.js";
import { hitItem } from "./hit.js";
import { coloursOf, keyOf, ranksIn } from "./replies.js";
import { degradedNotice, doubtNotice, tracePanel } from "./trace.js";
import { armInWords } from "./words.js";

function badge(rank, there, other) {
  if (there === null) return el("span", { class: "move only" }, `not in ${other}`);
  if (there === rank) return el("span", { class: "move same" }, `same in ${other}`);
  const up = there > rank;
  return el("span", { class: up ? "move up" : "move down" },
    el("span", { "aria-hidden": "true" }, up ? "▲" : "▼"), el("span", { class: "unseen" }, up ? "higher by" : "lower by"),
    ` ${Math.abs(there - rank)}, rank ${there} in ${other}`);
}

function column(reply, other, colourOf) {
  const span = spanOf(reply.hits);
  const there = ranksIn(reply, other);
  const items = reply.hits.map((hit, at) => {
    const item = hitItem(hit, { span, colourOf, compact: true, badge: badge(hit.rank, there[at], other.recipe) });
    item.dataset.pair = keyOf(hit);
    return item;
  });
  return el("section", { class: "column", "aria-label": `Recipe ${reply.recipe}` },
    el("h2", null, reply.recipe, " ", el("span", { class: "faint" }, [plural(reply.hits.length, "hit"), duration(reply.tookMs), howSure(reply)].filter(Boolean).join(", "))),
    degradedNotice(reply), doubtNotice(reply), key(reply, colourOf, armInWords),
    reply.hits.length ? el("ol", { class: "hits" }, items) : el("p", { class: "faint" }, "Nothing found."),
    el("details", { class: "why" }, el("summary", null, `How ${reply.recipe} found them`), tracePanel(reply, colourOf)));
}

function summary(one, other) {
  const there = ranksIn(one, other);
  const both = there.filter((rank) => rank !== null).length;
  const moved = one.hits.filter((hit, at) => there[at] !== null && there[at] !== hit.rank).length;
  const only = [[one, one.hits.length - both], [other, other.hits.length - both]].filter(([, count]) => count).map(([reply, count]) => `${count} only in ${reply.recipe}`);
  const same = both === one.hits.length && both === other.hits.length && moved === 0;
  if (same) return `Both recipes give the same ${plural(both, "hit")} in the same order.`;
  return `${plural(both, "hit")} in both, ${moved} of them at another rank${only.length ? `; ${only.join(", ")}` : ""}.`;
}

function draw(gutter, left, right) {
  const box = gutter.getBoundingClientRect();
  show(gutter);
  if (box.width < 8) return;
  gutter.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  const middle = (node) => { const at = node.querySelector(".rank").getBoundingClientRect(); return at.top + at.height / 2 - box.top; };
  const there = new Map([...right.querySelectorAll("[data-pair]")].map((node) => [node.dataset.pair, node]));
  for (const node of left.querySelectorAll("[data-pair]")) {
    const twin = there.get(node.dataset.pair);
    if (!twin) continue;
    const [from, to] = [middle(node), middle(twin)];
    const half = box.width / 2;
    const moved = node.querySelector(".move.same") ? "line same" : "line";
    gutter.append(svg("path", { class: moved, "data-pair": node.dataset.pair, d: `M0 ${from} C${half} ${from} ${half} ${to} ${box.width} ${to}` }));
  }
}

/** Shows two replies beside each other in `place`. */
export function showBoth(place, one, other) {
  const colourOf = coloursOf([one, other]);
  const [left, right] = [column(one, other, colourOf), column(other, one, colourOf)];
  const gutter = svg("svg", { class: "gutter", "aria-hidden": "true", preserveAspectRatio: "none" });
  const both = el("div", { class: "both" }, left, gutter, right);
  const light = (pair) => {
    for (const node of both.querySelectorAll("[data-pair]")) node.classList.toggle("twin", pair !== null && node.dataset.pair === pair);
  };
  for (const kind of ["pointerover", "focusin"]) {
    both.addEventListener(kind, (event) => light(event.target.closest?.("li[data-pair]")?.dataset.pair ?? null));
  }
  both.addEventListener("pointerleave", () => light(null));
  show(place, el("p", { class: "summary" }, summary(one, other)), both);
  const redraw = () => { if (both.isConnected) draw(gutter, left, right); else watch.disconnect(); };
  const watch = new ResizeObserver(redraw);
  watch.observe(left);
  watch.observe(right);
  redraw();
  return summary(one, other);
}

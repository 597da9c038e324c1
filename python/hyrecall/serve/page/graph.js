// Draws the neighbourhood of a memory: it stands in the middle, its neighbours around it.
import { el, svg } from "./dom.js";

const MOST = 24; // neighbours that are drawn; the list beneath the drawing has all
const FEW = 8; // up to so many have two lines each
const WIDTH = 720;
const LETTER = 7; // width of one, about; boxes are a little wider than their text
const LINE = 16;

export const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text);

/** Neighbours of `id` in the order of the edges that name them. */
export function neighboursOf(id, edges) {
  return [...new Set(edges.flatMap((edge) => edge.participants.map((one) => one.id)))].filter((one) => one !== id);
}

/** A text in at most two lines of `width` letters, broken between words where it can be. */
export function twoLines(text, width) {
  const flat = text.replace(/\s+/g, " ").trim();
  if (flat.length <= width) return [flat];
  const space = flat.lastIndexOf(" ", width);
  const end = space > width / 3 ? space : width;
  return [flat.slice(0, end), short(flat.slice(end).trimStart(), width)];
}

function box(text, lines, width) {
  const shown = lines === 1 ? [short(text.replace(/\s+/g, " ").trim(), width)] : twoLines(text, width);
  const longest = Math.max(...shown.map((line) => line.length));
  return { lines: shown, width: Math.max(longest * LETTER + 24, 64), height: shown.length * LINE + 14 };
}

/** Where each memory stands, and the box around its text. */
function layout(id, neighbours, textOf) {
  const many = neighbours.length > FEW;
  const [across, down] = [many ? 290 : 262, many ? 120 + 9 * neighbours.length : 138];
  const at = new Map([[id, { ...box(textOf(id) || id, 2, 22), x: WIDTH / 2, y: 0 }]]);
  neighbours.forEach((one, number) => {
    const start = neighbours.length <= 2 ? 0 : -Math.PI / 2;
    const turn = (2 * Math.PI * number) / neighbours.length + start;
    const ring = many && number % 3 === 1 ? 0.55 : 1;
    const made = box(textOf(one) || one, many ? 1 : 2, many ? 14 : 18);
    const x = WIDTH / 2 + Math.cos(turn) * across * ring;
    at.set(one, { ...made, x: Math.min(Math.max(x, made.width / 2 + 2), WIDTH - made.width / 2 - 2), y: Math.sin(turn) * down * ring });
  });
  return at;
}

function node(id, text, place, isCentre) {
  const { x, y, width, height, lines } = place;
  const drawn = [
    svg("title", null, text ? `${id}: ${text}` : id),
    svg("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 6 }),
    lines.map((line, number) => svg("text", { x, y: y + 4.5 + LINE * (number - (lines.length - 1) / 2), "text-anchor": "middle" }, line)),
  ];
  if (isCentre) return svg("g", { class: "node centre" }, drawn.flat());
  return svg("a", { class: "node", href: `#/memory/${encodeURIComponent(id)}`, "aria-label": `${id}${text ? `: ${short(text, 120)}` : ""}` }, drawn.flat());
}

const endsOf = (edge, at) => [...new Set(edge.participants.map((one) => one.id))].map((one) => at.get(one)).filter(Boolean);

const mean = (values) => values.reduce((total, value) => total + value, 0) / values.length;

// The share of the way from `from` to `to` that lies within the box around `from`.
function within(from, to) {
  const [dx, dy] = [Math.abs(to.x - from.x), Math.abs(to.y - from.y)];
  return Math.min(dx ? from.width / 2 / dx : 1, dy ? from.height / 2 / dy : 1, 1);
}

/** The middle of what can be seen of an edge: between the boxes of two, amid several. */
function middleOf(ends) {
  if (ends.length > 2) return { x: mean(ends.map((end) => end.x)), y: mean(ends.map((end) => end.y)) };
  const [one, other] = ends;
  const share = (within(one, other) + 1 - within(other, one)) / 2;
  return { x: one.x + share * (other.x - one.x), y: one.y + share * (other.y - one.y) };
}

function edgeLines(edge, at) {
  const ends = endsOf(edge, at);
  if (ends.length < 2) return [];
  if (ends.length === 2) return [svg("line", { class: "edge", x1: ends[0].x, y1: ends[0].y, x2: ends[1].x, y2: ends[1].y })];
  const { x, y } = middleOf(ends);
  return [...ends.map((end) => svg("line", { class: "edge", x1: x, y1: y, x2: end.x, y2: end.y })), svg("circle", { class: "joint", cx: x, cy: y, r: 4 })];
}

// Edges that join the same memories share one label.
function labels(edges, at) {
  const spots = new Map();
  for (const edge of edges) {
    const ends = endsOf(edge, at);
    if (ends.length < 2) continue;
    const { x, y } = middleOf(ends);
    const name = `${Math.round(x)} ${Math.round(y)}`;
    if (!spots.has(name)) spots.set(name, { x, y: ends.length > 2 ? y - 9 : y + 4, texts: [] });
    const { texts } = spots.get(name);
    if (!texts.includes(edge.relationship)) texts.push(edge.relationship);
  }
  return [...spots.values()].map(({ x, y, texts }) => svg("text", { class: "relation", x, y, "text-anchor": "middle" }, short(texts.join(", "), 24)));
}

/** The drawing, a link for each neighbour; `textOf` gives a memory's text where it is known. */
export function neighbourhood(id, edges, textOf) {
  const all = neighboursOf(id, edges);
  const drawn = all.slice(0, MOST);
  const at = layout(id, drawn, textOf);
  const top = Math.min(...[...at.values()].map((place) => place.y - place.height / 2)) - 4;
  const height = Math.max(...[...at.values()].map((place) => place.y + place.height / 2)) + 4 - top;
  const canvas = svg("svg", { class: "graph", viewBox: `0 ${top} ${WIDTH} ${height}`, role: "group", "aria-label": `${id} and ${drawn.length} of its neighbours` },
    edges.flatMap((edge) => edgeLines(edge, at)), drawn.map((one) => node(one, textOf(one), at.get(one), false)),
    node(id, textOf(id), at.get(id), true), drawn.length > FEW ? [] : labels(edges, at));
  const left = all.length - drawn.length;
  return el("figure", { class: "drawing" }, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Drawing of the links" }, canvas),
    left > 0 && el("figcaption", { class: "faint" }, `${left} more are in the list below.`));
}

// Shows one hit: its text, its bar, what each arm found, and how stages changed the score.
import { bar, isLargest } from "./bars.js";
import { el, link } from "./dom.js";
import { age, number, plural, time } from "./format.js";

const LONG = 420; // characters; a longer text is cut until it is asked for

/** A text in which the words of the query are marked; places are in code points. */
export function marked(text, places) {
  const points = Array.from(text);
  const piece = (begin, end) => points.slice(begin, end).join("");
  const shown = places.filter(([begin]) => begin < points.length);
  const ends = [0, ...shown.map(([, end]) => end)];
  return [
    ...shown.flatMap(([begin, end], at) => [piece(ends[at], begin), el("mark", null, piece(begin, end))]),
    piece(ends.at(-1)),
  ];
}

function body(text, places) {
  const shown = el("p", { class: "text", dir: "auto" });
  if (text.length <= LONG) {
    shown.append(...marked(text, places));
    return shown;
  }
  const cut = text.slice(0, text.lastIndexOf(" ", LONG) > LONG / 2 ? text.lastIndexOf(" ", LONG) : LONG);
  const more = el("button", {
    type: "button", class: "more", "aria-expanded": "false",
    click: () => { shown.replaceChildren(...marked(text, places)); shown.focus(); },
  }, `Show all ${text.length.toLocaleString("en")} characters`);
  shown.tabIndex = -1;
  shown.append(...marked(cut, places), "… ", more);
  return shown;
}

/** Flags that say in words why a hit stands where it does. */
export function flags(hit) {
  const made = [];
  const add = (words, title) => made.push(el("span", { class: "flag", title }, words));
  if (hit.isExact) add("holds the query whole", "The query is an identifier or a quoted string that this one holds, so it comes first");
  if (hit.isFill) add("not found: one of the newest", "The recipe fills a short list with the newest");
  const duplicates = hit.why?.steps.find((step) => step.stage === "Dedup")?.factors?.duplicates;
  if (duplicates) add(`stands for ${plural(duplicates, "duplicate")}`, "Dedup dropped these in favour of this one");
  return made;
}

function about(hit) {
  const { memory } = hit;
  if (!memory) {
    const cell = hit.cell === null || hit.cell === undefined ? null : Array.isArray(hit.cell) ? hit.cell.join(" / ") : String(hit.cell);
    return [cell && el("span", null, cell), hit.columns.slice(0, 6).filter(([, value]) => value !== hit.text).map(([name, value]) =>
      el("span", null, `${name} ${String(value).slice(0, 80)}`))];
  }
  return [
    el("span", null, memory.kind),
    el("time", { datetime: memory.occurred_at, title: memory.occurred_at }, time(memory.occurred_at)),
    memory.user_id && el("span", { title: "Whose it is" }, memory.user_id),
    memory.session_id && el("span", { title: "Session" }, memory.session_id),
    memory.pinned && el("span", null, "pinned"),
    memory.visibility === "global" && el("span", null, "shared"),
    memory.tags?.map((tag) => el("span", { class: "tag" }, `#${tag}`)),
  ];
}

function armLine(one, why, colourOf) {
  const kind = one.bm25 ? "BM25" : one.dot !== null && one.dot !== undefined ? "cosine" : "score";
  const rank = one.rank === null || one.rank === undefined ? "not in its list" : `rank ${one.rank}`;
  const largest = isLargest(why) && one.contribution === Math.max(...why.components.map((part) => part.contribution));
  return el("li", { class: one.contribution ? null : "none" },
    el("i", { class: `swatch arm-${colourOf(one.arm)}` }), el("b", null, one.arm),
    el("span", null, rank), one.score !== null && one.score !== undefined && el("span", null, `${kind} ${number(one.score)}`),
    el("span", { class: "adds" }, one.contribution ? `${one.contribution < 0 ? "" : "+"}${number(one.contribution)}` : "adds nothing",
      largest && one.contribution > 0 ? ", the largest" : ""));
}

function factor(name, value) {
  const shown = name === "age" || name === "half_life" ? age(value) : number(value, 3);
  return `${name.replaceAll("_", " ")} ${shown}`;
}

// Of the factors of a stage, those that say most beside its score; "Why this score" has all.
const TELLING = {
  Composite: ["recency", "importance", "relevance"],
  SessionSignals: ["general", "topical", "session"],
  Recency: ["factor"],
  Provenance: ["weight"],
  MMR: ["relevance", "similarity"],
  Rerank: ["rerank_score"],
  RerankBy: ["rerank_score"],
};

function telling(step) {
  const names = (TELLING[step.stage] ?? []).filter((name) => name in (step.factors ?? {}));
  return names.length ? ` (${names.map((name) => factor(name, step.factors[name])).join(", ")})` : "";
}

function chain(hit) {
  const { why } = hit;
  if (!why.steps.length && why.best === null) return null;
  let before = why.fused;
  const items = [el("li", null, "fused ", el("b", null, number(why.joined)))];
  if (why.best !== null) items.push(el("li", null, `of ${number(why.best)} at best `, el("b", null, number(why.fused))));
  for (const step of why.steps) {
    const told = Object.entries(step.factors ?? {}).map(([name, value]) => factor(name, value)).join(", ");
    const same = before === step.score;
    items.push(el("li", { title: told, class: same ? "same" : null }, `${step.stage} `, el("b", null, same ? "as before" : number(step.score)), same ? "" : telling(step)));
    before = step.score;
  }
  return el("ol", { class: "chain", "aria-label": "Score after each stage" }, items);
}

function terms(component) {
  if (!component.terms.length) return null;
  const rows = component.terms.map((term) => el("tr", { class: term.term_freq ? null : "none" },
    el("th", { scope: "row" }, term.term), el("td", null, term.term_freq || "not here"),
    el("td", null, `${term.doc_freq} of ${component.n_docs}`), el("td", null, number(term.idf, 3)), el("td", null, term.term_freq ? `+${number(term.impact, 3)}` : "")));
  return el("table", null, el("caption", null, `Words of ${component.arm}`),
    el("thead", null, el("tr", null, ["word", "times here", "memories with it", "idf", "adds"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", null, rows));
}

function why(hit) {
  const steps = hit.why.steps.filter((step) => Object.keys(step.factors ?? {}).length);
  return el("details", { class: "why" }, el("summary", null, "Why this score"),
    el("div", { class: "inside" },
      hit.why.components.map(terms),
      steps.length > 0 && el("table", { class: "steps" }, el("caption", null, "Stages"),
        el("thead", null, el("tr", null, ["stage", "computed with", "score after it"].map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", null, steps.map((step) => el("tr", null, el("th", { scope: "row" }, step.stage),
          el("td", null, Object.entries(step.factors).map(([name, value]) => factor(name, value)).join(", ")), el("td", null, number(step.score, 6)))))),
      hit.why.text && el("pre", { tabindex: "0", "aria-label": "The whole sum" }, hit.why.text)));
}

/** One hit as a list item; `compact` leaves out what a narrow column has no room for. */
export function hitItem(hit, { span, colourOf, compact = false, badge = null, canOpen = true }) {
  const title = canOpen && hit.memory
    ? link(["memory", hit.id], { class: "id", title: "Its versions and links" }, hit.id)
    : el("span", { class: "id" }, hit.id);
  return el("li", { class: "hit", tabindex: "-1", "data-key": hit.id, "aria-label": `Rank ${hit.rank}` },
    el("div", { class: "rank", "aria-hidden": "true" }, hit.rank),
    el("div", { class: "content" },
      body(hit.text, hit.places),
      el("div", { class: "measure" }, bar(hit, span, colourOf), el("span", { class: "score", title: "Score" }, hit.isFill ? "fill" : number(hit.score))),
      hit.why && hit.why.components.length > 0 && el("ul", { class: "arms", "aria-label": "What each arm adds" },
        hit.why.components.filter((one) => one.contribution || (!compact && typeof one.score === "number")).map((one) => armLine(one, hit.why, colourOf))),
      hit.why && !compact && hit.why.components.length > 0 && chain(hit),
      el("div", { class: "foot" }, el("p", { class: "about" }, badge, title, about(hit), flags(hit)),
        hit.why && !compact && hit.why.components.length > 0 && why(hit))));
}

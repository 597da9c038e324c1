// The form and the reply of a recall.
import { addressOf, askedOf, fill } from "./address.js";
import { api } from "./api.js";
import { key, spanOf } from "./bars.js";
import { showBoth } from "./compare.js";
import { byId, el, link, show } from "./dom.js";
import { duration, howSure, plural } from "./format.js";
import { hitItem } from "./hit.js";
import { textOf } from "./memory.js";
import { coloursOf, readReply } from "./replies.js";
import { degradedNotice, doubtNotice, tracePanel } from "./trace.js";
import { armInWords } from "./words.js";

const MOST = 100;

const given = (form, name) => form.elements[name]?.value.trim() ?? "";

function json(form, name, what) {
  const text = given(form, name);
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    form.elements[name].focus();
    throw new Error(`${what}: expected JSON, such as ${form.elements[name].placeholder}`);
  }
}

function scopeOf(form) {
  const text = given(form, "scope");
  if (!text) return undefined;
  return /^[[{"]/.test(text) ? json(form, "scope", "Scope") : text;
}

const instant = (form, name) => (given(form, name) ? new Date(given(form, name)).toISOString() : null);

/** Who asks, as far as the form narrows what the token allows. */
export function whoOf(form) {
  const who = {};
  for (const name of ["user_id", "org", "workspace"]) if (given(form, name)) who[name] = given(form, name);
  return who;
}

/** What the form asks, as the body of /v1/recall without its recipe. */
export function bodyOf(form, kind, columns) {
  const limit = Number(given(form, "limit") || 10);
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST) throw new Error(`Limit: expected a whole number from 1 to ${MOST}`);
  const body = { limit, explain: true, confidence: true };
  const filter = json(form, "filter", "Filter");
  if (filter !== undefined) body.filter = filter;
  body.text = form.elements.query.value;
  if (kind === "index") {
    if (columns.length) body.columns = columns;
    const scope = scopeOf(form);
    if (scope !== undefined) body.scope = scope;
    return body;
  }
  Object.assign(body, whoOf(form));
  for (const name of ["session_id", "kind"]) if (given(form, name)) body[name] = given(form, name);
  const tags = given(form, "tags").split(",").map((tag) => tag.trim()).filter(Boolean);
  if (tags.length) body.tags = tags;
  const [from, to] = [instant(form, "from"), instant(form, "to")];
  if (from) body.since = from;
  if (to) body.until = to;
  return body;
}

function around(reply) {
  const line = (episode) => el("li", null, link(["memory", episode.id], { class: "id" }, episode.id), " ", textOf(episode).slice(0, 160));
  const near = new Map(reply.context.flat().map((one) => [one.id, one]));
  return [
    reply.related.length > 0 && el("section", { class: "around" }, el("h2", null, "Related by tags"), el("ul", null, reply.related.map(line))),
    near.size > 0 && el("section", { class: "around" }, el("h2", null, "Neighbours in the graph"), el("ul", null, [...near.values()].map(line))),
    reply.edges.length > 0 && el("section", { class: "around" }, el("h2", null, "Links between them"), el("ul", null, reply.edges.map((edge) =>
      el("li", null, el("b", null, edge.relationship), " ", edge.participants.map((one, at) => [at ? ", " : "", link(["memory", one.id], null, one.id)]))))),
  ];
}

const headline = (reply) => [
  plural(reply.hits.length, "hit"), duration(reply.tookMs), reply.mode === "substring" ? "found as plain text" : null, howSure(reply),
].filter(Boolean).join(" · ");

/** Why nothing was found; without a user, a store looks only at the memories that have none. */
const nothing = (form, info) => (info.kind === "store" && info.free("user_id") && !given(form, "user_id")
  ? "No memory without a user matches. For the memories of a user, write the name under User."
  : "Nothing in this scope matches.");

function showOne(place, reply, canOpen, ifNone) {
  const colourOf = coloursOf([reply]);
  const span = spanOf(reply.hits);
  show(place, degradedNotice(reply), doubtNotice(reply), el("p", { class: "summary" }, el("b", null, reply.recipe), ` · ${headline(reply)}`),
    el("div", { class: "answer" },
      el("section", { "aria-label": "Hits" },
        reply.hits.length > 0 && key(reply, colourOf, armInWords),
        reply.hits.length ? el("ol", { class: "hits" }, reply.hits.map((hit) => hitItem(hit, { span, colourOf, canOpen })))
          : el("p", { class: "empty-list" }, ifNone),
        around(reply)),
      el("aside", { "aria-label": "How they were found" }, tracePanel(reply, colourOf))));
  return headline(reply);
}

/**
 * Connects the form; `report` shows a fault, and `info` tells what is served.
 *
 * Returns a function that shows the recall that an address asks, or takes the shown one away.
 */
export function startRecall(form, info, report, said) {
  const place = byId("reply");
  let running = null;
  let shown = ""; // what is asked by the recall that is shown or under way

  function empty() {
    running?.abort();
    shown = "";
    show(place);
  }

  function keep(isLinked) {
    shown = askedOf(form, info);
    const address = addressOf(shown);
    for (const one of document.querySelectorAll("header a[href^='#/recall']")) one.href = address;
    if (address !== location.hash) history[isLinked ? "replaceState" : "pushState"](null, "", address);
  }

  async function ask(isLinked = false) {
    let body;
    try {
      body = { ...bodyOf(form, info.kind, info.columns), highlight: info.highlights };
    } catch (fault) {
      report(fault);
      return;
    }
    running?.abort();
    const mine = new AbortController();
    running = mine;
    report(null);
    keep(isLinked);
    place.setAttribute("aria-busy", "true");
    const [one, beside] = [given(form, "recipe"), given(form, "beside")];
    const once = async (recipe) => readReply(await api.recall(recipe ? { ...body, recipe } : body, mine.signal), recipe || info.recipe || "default");
    try {
      const replies = await Promise.all([once(one), ...(beside ? [once(beside)] : [])]);
      if (running !== mine) return;
      said(replies.length > 1 ? showBoth(place, replies[0], replies[1]) : showOne(place, replies[0], info.kind === "store", nothing(form, info)));
    } catch (fault) {
      if (fault.name !== "AbortError" && running === mine) { empty(); report(fault); }
    } finally {
      if (running === mine) { running = null; place.removeAttribute("aria-busy"); }
    }
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  for (const name of ["recipe", "beside"]) form.elements[name].addEventListener("change", () => { if (place.childElementCount) ask(); });
  form.addEventListener("input", () => countFilters(form));

  return (asked) => {
    if (asked && asked === shown) return;
    empty();
    report(null);
    if (!asked) return;
    try {
      fill(form, asked, info);
    } catch (fault) {
      report(fault);
      return;
    } finally {
      countFilters(form);
    }
    ask(true);
  };
}

/** Says beside the closed group how many are set, so that a closed group hides none. */
export function countFilters(form) {
  const set = ["org", "workspace", "kind", "tags", "from", "to", "filter"].filter((name) => given(form, name)).length;
  byId("filters-count").textContent = set ? `(${set} set)` : "";
}

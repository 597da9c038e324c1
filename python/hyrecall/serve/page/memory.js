// One memory: its versions with what changed, and the memories it is linked to.
import { api } from "./api.js";
import { wordDiff } from "./diff.js";
import { el, link, recallAddress, show } from "./dom.js";
import { listed, plural, time } from "./format.js";
import { neighbourhood, neighboursOf } from "./graph.js";

const MOST_TEXTS = 24; // neighbours whose texts are fetched for the drawing

export const textOf = (episode) => [episode?.input, episode?.text].filter((part) => part && part.trim()).join("\n");

const STATUS = {
  live: "live", superseded: "superseded", archived: "archived", deleted: "forgotten",
};

function changedFields(before, after) {
  if (!before || !after) return [];
  const plain = ["kind", "source", "session_id", "occurred_at", "importance", "pinned", "visibility", "tags", "metadata"];
  return plain.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((name) => `${name.replace("_", " ")}: ${JSON.stringify(before[name])} → ${JSON.stringify(after[name])}`);
}

function versionItem(version, before, isLast) {
  const text = textOf(version.episode);
  const runs = version.episode === null ? [] : before?.episode ? wordDiff(textOf(before.episode), text) : [{ kind: "same", text }];
  const tags = { same: "span", gone: "del", new: "ins" };
  return el("li", { class: `version ${version.status}` },
    el("p", { class: "about" }, el("b", null, `Version ${version.version}`), (version.status !== "live" || isLast) && el("span", { class: "flag" }, STATUS[version.status] ?? version.status),
      el("time", { datetime: version.recorded_at, title: version.recorded_at }, time(version.recorded_at)),
      version.reason && el("span", null, `because: ${version.reason}`),
      version.successor && el("span", null, "now ", link(["memory", version.successor], null, version.successor))),
    runs.length > 0 && el("p", { class: "text", dir: "auto" }, runs.map((run) => el(tags[run.kind], null, run.text))),
    changedFields(before?.episode, version.episode).map((line) => el("p", { class: "faint" }, line)));
}

function edgeItem(edge) {
  return el("li", null, el("b", null, edge.relationship), " ",
    edge.participants.map((one, at) => [at ? ", " : "", link(["memory", one.id], null, one.id), one.role ? el("span", { class: "faint" }, ` (${one.role})`) : ""]),
    edge.description && el("p", { class: "faint" }, edge.description));
}

async function textsOf(ids, who) {
  const texts = new Map();
  await Promise.all(ids.slice(0, MOST_TEXTS).map(async (id) => {
    const found = await api.memory(id, who).catch(() => null); // a neighbour that may not be read keeps its id
    if (found) texts.set(id, textOf(found));
  }));
  return texts;
}

/** Shows the memory `id` in `place`; `isCurrent` says whether this view is still wanted. */
export async function showMemory(place, id, who, isCurrent) {
  show(place, el("p", { class: "faint" }, "Reading…"));
  const [history, linked] = await Promise.all([api.history(id, who), api.links(id, who)]);
  const versions = history.items;
  const edges = linked.items;
  const neighbours = neighboursOf(id, edges);
  const texts = await textsOf([id, ...neighbours], who);
  if (!isCurrent()) return;
  const ordered = [...versions].sort((one, other) => other.version - one.version);
  const last = ordered[0];
  const names = [...new Set(edges.map((edge) => edge.relationship))];
  show(place,
    el("p", { class: "crumbs" }, el("a", { href: recallAddress() }, "Recall"), " / ", el("span", { class: "faint" }, "memory")),
    el("h1", { class: "id", tabindex: "-1" }, id),
    last ? el("p", { class: "lead text", dir: "auto" }, textOf(last.episode) || "Nothing of it is kept.") : el("p", null, "There is no such memory in this scope."),
    last?.episode && el("p", { class: "about" }, el("span", null, last.episode.kind), el("span", null, STATUS[last.status] ?? last.status),
      el("time", { datetime: last.episode.occurred_at }, time(last.episode.occurred_at)),
      last.episode.user_id && el("span", null, last.episode.user_id), (last.episode.tags ?? []).map((tag) => el("span", { class: "tag" }, `#${tag}`))),
    el("div", { class: "pair" },
      el("section", { "aria-labelledby": "links-title" }, el("h2", { id: "links-title" }, "Links"),
        edges.length
          ? [el("p", { class: "faint" }, `${plural(neighbours.length, "neighbour")} by ${listed(names.slice(0, 6))}${names.length > 6 ? " and more" : ""}`),
            neighbourhood(id, edges, (one) => texts.get(one) ?? ""), el("ul", { class: "edges" }, edges.map(edgeItem))]
          : el("p", { class: "faint" }, "It is linked to nothing.")),
      el("section", { "aria-labelledby": "history-title" }, el("h2", { id: "history-title" }, "History"),
        el("ol", { class: "versions", reversed: true }, ordered.map((version, at) => versionItem(version, ordered[at + 1], at === 0))))));
  place.querySelector("h1").focus({ preventScroll: true });
}

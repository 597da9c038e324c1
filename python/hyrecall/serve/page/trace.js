// Shows how a reply came about: the time of each step, what arms found, what stages kept and dropped.
import { el } from "./dom.js";
import { duration, listed, plural, time } from "./format.js";
import { armInWords, cutInWords, dropInWords, reasonInWords, stageInWords, stepInWords, whyDropped } from "./words.js";

function times(reply) {
  const steps = Object.entries(reply.trace.milliseconds ?? {});
  const most = Math.max(...steps.map(([, spent]) => spent), 1e-9);
  return el("table", { class: "times" }, el("caption", null, "Time of each step"),
    el("tbody", null, steps.map(([step, spent]) => {
      const fill = el("i");
      fill.style.width = `${(100 * spent) / most}%`;
      return el("tr", null, el("th", { scope: "row" }, stepInWords(step)), el("td", { class: "spark", "aria-hidden": "true" }, fill), el("td", null, duration(spent)));
    })));
}

function arms(reply, colourOf) {
  const found = Object.keys(reply.found).length ? reply.found : Object.fromEntries(reply.trace.arms.map((arm) => [arm, null]));
  const some = Object.entries(found).filter(([, count]) => count !== 0);
  const none = Object.keys(found).filter((arm) => found[arm] === 0);
  return el("div", null, el("table", { class: "found" }, el("caption", null, `Found by each arm, at most ${reply.trace.depth}`),
    el("tbody", null, some.map(([arm, count]) => el("tr", null,
      el("th", { scope: "row" }, el("i", { class: `swatch arm-${colourOf(arm)}` }), arm, " ", el("span", { class: "faint" }, armInWords(arm))),
      el("td", null, count ?? "ran"))))),
    none.length > 0 && el("p", { class: "faint nothing" }, `Nothing by ${listed(none)}.`));
}

const SHOWN = 5; // rows of a stage that are seen at once; the others are folded

function droppedRow(row) {
  return el("li", null, el("span", { class: "faint" }, `${row.place} `), el("code", null, String(row.key)), ` ${whyDropped(row)}`);
}

/** The rows that a stage dropped, each with its reason, number and the row that was kept for it. */
function droppedRows(drops) {
  const [first, rest] = [drops.rows.slice(0, SHOWN), drops.rows.slice(SHOWN)];
  const unnamed = drops.n_more > 0 && el("p", { class: "faint" }, `${drops.n_more} more are counted and not named.`);
  return [
    first.length > 0 && el("ul", { class: "dropped" }, first.map(droppedRow)),
    rest.length > 0 && el("details", null, el("summary", null, `${rest.length} more`), el("ul", { class: "dropped" }, rest.map(droppedRow))),
    unnamed,
  ];
}

function cut(drops) {
  const [title, does] = cutInWords(drops.stage);
  return el("li", null, el("p", null, el("b", null, title)), el("p", { class: "faint" }, does),
    el("p", { class: "faint" }, `${drops.n_in} in, ${drops.n_out} out`),
    el("p", null, el("strong", null, `${drops.n_dropped} dropped:`)), droppedRows(drops));
}

function stage(one, drops, most) {
  const dropped = one.n_in - one.n_out;
  const kept = el("i", { class: "kept" });
  const lost = el("i", { class: "lost" });
  kept.style.width = `${(100 * one.n_out) / most}%`;
  lost.style.width = `${(100 * Math.max(dropped, 0)) / most}%`;
  return el("li", null,
    el("p", null, el("b", null, one.stage), el("span", { class: "spent" }, duration(one.milliseconds))),
    el("p", { class: "faint" }, stageInWords(one.stage)),
    el("div", { class: "funnel", "aria-hidden": "true" }, kept, lost),
    el("p", { class: "faint" }, `${one.n_in} in, ${one.n_out} out`),
    dropped > 0 && el("p", { class: "warn" }, el("strong", null, `${dropped} dropped: `), dropInWords(one.stage)),
    drops && droppedRows(drops),
    (one.notes ?? []).map((note) => el("p", { class: "warn" }, note)));
}

function stages(reply) {
  const most = Math.max(...reply.stages.map((one) => one.n_in), 1);
  const cutBy = (name) => (reply.dropped.get(name)?.n_dropped ? cut(reply.dropped.get(name)) : null);
  const shown = [cutBy("min_fused"), ...reply.stages.map((one) => stage(one, reply.dropped.get(one.stage), most)), cutBy("limit")].filter(Boolean);
  return [!reply.stages.length && el("p", { class: "faint" }, "This recipe has no stages: the order of the fusion stands."),
    shown.length > 0 && el("ol", { class: "stages" }, shown)];
}

/** What a reply could not do, in words; nothing where it could do everything. */
export function degradedNotice(reply) {
  const lines = reply.reasons.map(({ reason, detail }) => {
    const words = reasonInWords(reason);
    if (words === null) return el("li", null, detail || reason); // of an index: the detail says it
    return el("li", null, words, detail && el("span", { class: "faint" }, ` (${detail})`));
  });
  if (!lines.length && reply.degraded) lines.push(el("li", null, "The service does not say why."));
  if (!lines.length) return null;
  return el("div", { class: "notice degraded" }, el("p", null, el("strong", null, "Less than it could be")), el("ul", null, lines));
}

/** Says above the hits that probably none of them is an answer. */
export function doubtNotice(reply) {
  if (!reply.isDoubtful || !reply.hits.length) return null;
  return el("div", { class: "notice" }, el("p", null, el("strong", null, "Probably nothing here answers"), ": these are best guesses."));
}

/** The panel beside the hits. */
export function tracePanel(reply, colourOf) {
  if (!reply.trace) return el("p", { class: "faint" }, "No index answered, so there is no trace.");
  const exact = Object.values(reply.trace.exact ?? {}).reduce((total, count) => total + count, 0);
  return el("div", { class: "trace" },
    times(reply), arms(reply, colourOf),
    el("h3", null, "Stages"), stages(reply),
    exact > 0 && el("p", null, `${plural(exact, "row")} came first because ${exact === 1 ? "it holds" : "they hold"} the query whole.`),
    (reply.trace.notes ?? []).map((note) => el("p", { class: "faint" }, note)),
    el("p", { class: "faint" }, `On ${reply.trace.device ?? "the CPU"}${reply.now ? `, as of ${time(reply.now)}` : ""}.`));
}

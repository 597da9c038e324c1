// Shows how a reply came about: the time of each step, what arms found, what stages kept and dropped.
import { el } from "./dom.js";
import { duration, listed, plural, time } from "./format.js";
import { armInWords, dropInWords, reasonInWords, stageInWords, stepInWords } from "./words.js";

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

function stage(one, most) {
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
    (one.notes ?? []).map((note) => el("p", { class: "warn" }, note)));
}

function stages(reply) {
  if (!reply.stages.length) return el("p", { class: "faint" }, "This recipe has no stages: the order of the fusion stands.");
  const most = Math.max(...reply.stages.map((one) => one.n_in), 1);
  const dropped = reply.stages.some((one) => one.n_in > one.n_out);
  return [el("ol", { class: "stages" }, reply.stages.map((one) => stage(one, most))),
    dropped && el("p", { class: "faint" }, "The trace counts what a stage drops; it does not name it.")];
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

// Draws what each arm adds to a hit: parts side by side where they are summed, one under the other
// where only the largest counts.
import { el } from "./dom.js";
import { number } from "./format.js";

export const isLargest = (why) => why.fusion.startsWith("largest");

/** The least and the greatest end that a bar of these hits reaches; 0 lies between them. */
export function spanOf(hits) {
  let low = 0;
  let high = 0;
  for (const { why } of hits) {
    if (!why) continue;
    const parts = why.components.map((one) => one.contribution);
    const sums = isLargest(why)
      ? [Math.min(0, ...parts), Math.max(0, ...parts)]
      : [sum(parts.filter((part) => part < 0)), sum(parts.filter((part) => part > 0))];
    low = Math.min(low, sums[0]);
    high = Math.max(high, sums[1]);
  }
  return { low, high, size: high - low || 1 };
}

const sum = (parts) => parts.reduce((total, part) => total + part, 0);

/** The bar of one hit on a span that all hits of its list share. */
export function bar(hit, span, colourOf) {
  const { why } = hit;
  if (!why || !why.components.length) return el("div", { class: "bar empty", "aria-hidden": "true" });
  const largest = isLargest(why);
  const told = why.components.map((one) => `${one.arm} adds ${number(one.contribution)}`).join(", ");
  const whole = why.joined ?? why.fused ?? hit.score;
  const end = largest ? `the largest counts: ${number(whole)}` : `together ${number(whole)}`;
  const made = el("div", { class: largest ? "bar largest" : "bar", role: "img", "aria-label": `${told}; ${end}` });
  let right = 0;
  let left = 0;
  let line = 0;
  for (const { arm, contribution } of why.components) {
    if (!contribution) continue;
    let from = 0;
    if (!largest && contribution > 0) { from = right; right += contribution; }
    if (!largest && contribution < 0) { left += contribution; from = left; }
    if (largest && contribution < 0) from = contribution;
    const part = el("span", { class: `part arm-${colourOf(arm)}`, title: `${arm} adds ${number(contribution)}` });
    part.style.left = `${(100 * (from - span.low)) / span.size}%`;
    part.style.width = `${(100 * Math.abs(contribution)) / span.size}%`;
    if (largest) part.style.setProperty("--line", String(line++));
    made.append(part);
  }
  if (largest) made.style.setProperty("--lines", String(Math.max(line, 1)));
  if (span.low < 0) {
    const zero = el("span", { class: "zero" });
    zero.style.left = `${(-100 * span.low) / span.size}%`;
    made.append(zero);
  }
  return made;
}

/** The arms of a reply with their colours. */
export function key(reply, colourOf, wordsOf) {
  const seen = new Map();
  for (const arm of reply.arms) {
    const base = arm.slice(arm.lastIndexOf(".") + 1);
    if (!seen.has(base)) seen.set(base, { colour: colourOf(arm), words: wordsOf(arm) });
  }
  return el("ul", { class: "key", "aria-label": "Colours of the arms" },
    [...seen].map(([base, { colour, words }]) =>
      el("li", null, el("i", { class: `swatch arm-${colour}` }), base, words && el("span", { class: "faint" }, ` ${words}`))));
}

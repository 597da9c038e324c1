// Numbers, times and words as people read them.

/** A number with four significant digits; a minus sign that is as wide as a plus. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const shown = size >= 1e6 || size < 1e-4 ? value.toExponential(digits - 1) : Number(value.toPrecision(digits)).toString();
  return shown.replace("-", "−");
}

/** Milliseconds, or seconds where there are many. */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(2)} s`;
  return `${milliseconds >= 10 ? milliseconds.toFixed(0) : milliseconds.toFixed(2)} ms`;
}

/** Seconds in the largest unit that leaves at least one of it. */
export function age(seconds) {
  const units = [[31_557_600, "y"], [86_400, "d"], [3_600, "h"], [60, "min"]];
  for (const [size, unit] of units) if (Math.abs(seconds) >= size) return `${number(seconds / size, 3)} ${unit}`;
  return `${number(seconds, 3)} s`;
}

/** A time in this browser's zone, to the minute; the full one belongs into `title`. */
export function time(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return String(iso ?? "");
  const two = (part) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** How sure a reply is, in words; null where nothing is known. */
export const howSure = (reply) => (reply.confidence === null ? null : `confidence ${reply.confidence.toFixed(2)}`);

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** `n` things named, joined by commas and a last "and". */
export function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

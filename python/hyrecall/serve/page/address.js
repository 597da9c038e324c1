// The recall of the form as an address, so that a link, a bookmark or the button back shows it again.
// It stands behind the `#`, which no browser sends to the service; the token is never part of it.
import { el } from "./dom.js";

const COMMON = ["query", "recipe", "beside", "limit", "filter"];
const OF = {
  store: ["user_id", "session_id", "org", "workspace", "kind", "tags", "from", "to"],
  index: ["scope"],
};
const LONGEST = 1_000_000; // characters; no browser keeps a much longer address
const SHOWN = 80; // characters that a message repeats of a link

const namesOf = (info) => [...COMMON, ...OF[info.kind]];
const isTime = (field) => field.type === "datetime-local";
const usual = (name, info) => ({ limit: "10", recipe: info.recipes.includes(info.recipe) ? info.recipe : "" }[name] ?? "");
const short = (text) => (text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);

/** A time of a link as a field wants it, in this browser's zone; empty where it is none. */
function local(text) {
  const at = new Date(text);
  const moved = new Date(at - at.getTimezoneOffset() * 60_000);
  return Number.isNaN(moved.getTime()) ? "" : moved.toISOString().slice(0, -1);
}

/** What the form asks, with the fields that are not as usual; the query always. */
export function askedOf(form, info) {
  const asked = new URLSearchParams({ query: form.elements.query.value });
  for (const name of namesOf(info).slice(1)) {
    const field = form.elements[name];
    const value = field.value.trim();
    if (value && value !== usual(name, info)) asked.set(name, isTime(field) ? new Date(value).toISOString() : value);
  }
  return asked.toString();
}

export const addressOf = (asked) => (asked.length > LONGEST ? "#/recall" : `#/recall?${asked}`);

/** Puts a value into a field and returns what is wrong with it, or nothing. */
function put(field, value) {
  if (field.readOnly) return value === null || value === field.value ? "" : `expected what the token says, got ${short(value)}`;
  field.querySelector?.("[data-foreign]")?.remove();
  if (field.options && value && ![...field.options].some((one) => one.value === value)) {
    field.append(el("option", { value, "data-foreign": true }, value)); // the service says why not
  }
  field.value = isTime(field) && value ? local(value) : value;
  return value && !field.value ? `expected a ${isTime(field) ? "time" : "number"}, got ${short(value)}` : "";
}

/** Writes what a link asks into the form; fields that it does not name get what is usual. */
export function fill(form, asked, info) {
  const given = new URLSearchParams(asked);
  const names = namesOf(info);
  const faults = [...given.keys()].filter((name) => !names.includes(name)).map((name) => [short(name), `expected one of ${names.join(", ")}`]);
  for (const name of names) {
    const field = form.elements[name];
    const fault = put(field, given.get(name) ?? (field.readOnly ? null : usual(name, info)));
    if (fault) faults.push([name, fault]);
  }
  if (faults.length) throw new Error(`Link, ${faults[0][0]}: ${faults[0][1]}`);
}

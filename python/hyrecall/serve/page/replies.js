// Reads a reply of /v1/recall into one form, whether a store or an index folder gave it.

import { textOf as wordsOf } from "./memory.js";

const baseOf = (arm) => arm.slice(arm.lastIndexOf(".") + 1);

/** The number of each arm's colour, 0 to 5. Arms of several tables (`memory.text`) share one. */
export function coloursOf(replies) {
  const names = [...new Set(replies.flatMap((reply) => reply.arms.map(baseOf)))];
  return (arm) => {
    const at = names.indexOf(baseOf(arm));
    return (at < 0 ? names.length : at) % 6;
  };
}

function readExplanation(given) {
  if (!given) return null;
  return {
    fusion: given.fusion ?? "",
    components: (given.parts ?? []).map((one) => ({ ...one, contribution: one.contribution ?? 0, terms: one.terms ?? [] })),
    steps: given.steps ?? [],
    holds: given.holds ?? {},
    joined: given.joined ?? null,
    best: given.best ?? null,
    fused: given.fused ?? null,
    text: typeof given.text === "string" ? given.text : "",
  };
}

/**
 * The text of a hit, and where the words of the query stand in it.
 *
 * Of a document of an index, its longest text stands for it; the other columns are shown below.
 */
function textOf(match, columns) {
  if (match.episode) return [wordsOf(match.episode), match.highlights ?? []];
  const texts = Object.entries(columns).filter(([, one]) => typeof one === "string");
  const [name, text] = texts.reduce((longest, one) => (one[1].length > longest[1].length ? one : longest), ["", ""]);
  return [text, match.highlights?.[name] ?? []];
}

function readMatch(match, at, offset) {
  const columns = match.columns ?? {};
  const [text, places] = textOf(match, columns);
  return {
    id: String(match.episode?.id ?? match.key ?? ""),
    rank: match.rank ?? offset + at + 1,
    text,
    places,
    score: match.score ?? null,
    scores: match.scores ?? { vector: match.vector_score, bm25: match.bm25_score, rerank: match.rerank_score },
    ranks: match.ranks ?? match.parts?.tiers ?? {},
    isFill: match.is_fill === true,
    isExact: match.is_exact === true,
    cell: match.cell ?? null,
    memory: match.episode ?? null,
    columns: Object.entries(columns).filter(([, value]) => value !== null && value !== text),
    why: readExplanation(match.explanation),
  };
}

/** One recall, read: its hits, the arms that ran, the stages, and what it could not do. */
export function readReply(raw, recipe, offset = 0) {
  const trace = raw.trace ?? null;
  const hits = (raw.items ?? raw.hits ?? []).map((match, at) => readMatch(match, at, offset));
  const named = hits.flatMap((hit) => hit.why?.components.map((one) => one.arm) ?? []);
  return {
    recipe,
    hits,
    arms: [...new Set([...(trace?.arms ?? []), ...named])],
    found: raw.tiers ?? {},
    trace,
    stages: trace?.stages ?? [],
    dropped: new Map((trace?.dropped ?? []).map((one) => [one.stage, one])),
    reasons: raw.reasons ?? [],
    degraded: raw.degraded === true,
    mode: raw.lexical_mode ?? null,
    confidence: raw.confidence ?? null,
    isDoubtful: raw.answerable === false,
    related: raw.related ?? [],
    context: raw.context ?? [],
    edges: raw.edges ?? [],
    tookMs: raw.took_ms ?? null,
    now: raw.now ?? null,
  };
}

/** Where each hit of `one` stands in `other`: its rank there, or null. */
export function ranksIn(one, other) {
  const there = new Map(other.hits.map((hit) => [keyOf(hit), hit.rank]));
  return one.hits.map((hit) => there.get(keyOf(hit)) ?? null);
}

/** What makes a hit the same in two replies: its cell and its id. */
export const keyOf = (hit) =>
  JSON.stringify([hit.id, hit.cell, hit.memory ? [hit.memory.org, hit.memory.workspace, hit.memory.user_id] : null]);

// What the service's names of faults, steps and stages mean, in words.
import { number, plural } from "./format.js";

const REASONS = {
  embeddings_off: "This store has no embedder, so only words were matched, not meanings.",
  embed_not_ready: "The embedder is still loading, so only words were matched, not meanings.",
  embed_timeout: "The embedder took longer than it may, so only words were matched, not meanings.",
  embed_unavailable: "The embedder failed, so only words were matched, not meanings.",
  embed_refused: "The embedder refused this text, so only words were matched, not meanings.",
  embed_stale: "Some memories have no vector of this model; only words find them for now.",
  index_not_ready: "The index has not caught up yet, so memories were searched as plain text.",
  index_unavailable: "The index cannot be read, so memories were searched as plain text.",
  session_tracker: "The conversation could not be read or recorded; its signals are missing.",
  rerank: "The reranker failed or ran out of time; memories keep the order they had before it.",
  query_too_large: "The text has too many words, so words were not matched.",
  damaged_rows: "Some memories are damaged on the disk and were left out.",
};

/** A reason of a degraded reply as a sentence, or null for one that is not known. */
export const reasonInWords = (reason) => REASONS[reason] ?? null;

const STEPS = {
  plan: "read the request",
  statistics: "count words",
  candidates: "search arms",
  fusion: "join arms",
  shaping: "run stages",
  expansion: "look around",
};

export const stepInWords = (step) => STEPS[step] ?? step;

// Of each stage: what it does, and why it drops a memory, if it drops any.
const STAGES = {
  Dedup: ["keeps one of near-duplicates", "nearly the same as a memory that was kept"],
  Gate: ["keeps scores above a floor", "score below the floor"],
  Budget: ["keeps what fits a number of tokens", "did not fit into the token budget"],
  MMR: ["prefers memories unlike those above", "not chosen"],
  Recency: ["lowers the scores of old memories", "not chosen"],
  Provenance: ["weighs scores by source", "not chosen"],
  Composite: ["weighs recency, importance and relevance", "not chosen"],
  SessionSignals: ["weighs the conversation", "not chosen"],
  Rerank: ["asks a reranker", "beyond what the reranker keeps"],
  RerankBy: ["orders by a column", "not chosen"],
};

export const stageInWords = (stage) => STAGES[stage]?.[0] ?? "";
export const dropInWords = (stage) => STAGES[stage]?.[1] ?? "dropped by this stage";

// Of the steps around the stages: what each does.
const CUTS = {
  min_fused: ["Floor", "drops what the fusion scores below the recipe's floor"],
  limit: ["Page", "cuts the list to the number of hits that was asked for"],
};

export const cutInWords = (step) => CUTS[step];

/** Why a row was dropped: the reason, the numbers, and whom it made room for, as `row` says them. */
export function whyDropped(row) {
  const bound = row.bound === null ? null : number(row.bound);
  if (row.reason === "floor") return `score ${number(row.value)}, floor ${bound}`;
  if (row.reason === "budget") return `${plural(row.value, "token")}, ${bound} left in the budget`;
  if (row.reason === "duplicate") {
    const through = row.via ? `, through ${row.via.key}` : "";
    return `duplicate of ${row.kept.key}${through}: similarity ${number(row.value)}, above ${bound}`;
  }
  if (row.reason === "offset") return `on an earlier page, score ${number(row.value)}`;
  if (row.reason === "limit") return `beyond the limit, score ${number(row.value)}${bound === null ? "" : `, the last that stayed has ${bound}`}`;
  return row.why ?? row.reason;
}

const ARMS = {
  text: "words (BM25)",
  embedding: "meaning (cosine)",
  edges: "words of its links",
  regex: "pattern",
  tags: "shared tags",
  graph: "graph",
  hints: "ids that were given",
};

/** What an arm looks for; honeycomb's `memory.text` looks for what `text` does. */
export const armInWords = (arm) => ARMS[arm] ?? ARMS[arm.slice(arm.lastIndexOf(".") + 1)] ?? "";

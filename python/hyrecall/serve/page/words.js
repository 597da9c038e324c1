// What the service's names of faults, steps and stages mean, in words.

const REASONS = {
  embeddings_off: "This store has no embedder, so only words were matched, not meanings.",
  embed_not_ready: "The embedder is still loading, so only words were matched, not meanings.",
  embed_timeout: "The embedder took longer than it may, so only words were matched, not meanings.",
  embed_unavailable: "The embedder failed, so only words were matched, not meanings.",
  embed_stale: "Some stored vectors are of another model; they were left out of the comparison.",
  index_not_ready: "The index has not caught up yet, so memories were searched as plain text.",
  index_unavailable: "The index cannot be read, so memories were searched as plain text.",
  session_tracker: "The conversation could not be read or recorded; its signals are missing.",
  rerank: "The reranker failed or ran out of time; memories keep the order they had before it.",
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

// Asks the service. The token lives in this tab's sessionStorage and goes out in one header only.

const KEY = "hyrecall.token";

export const token = {
  get() {
    try {
      return sessionStorage.getItem(KEY) ?? "";
    } catch {
      return "";
    }
  },
  set(value) {
    try {
      if (value) sessionStorage.setItem(KEY, value);
      else sessionStorage.removeItem(KEY);
    } catch { /* a browser that keeps nothing asks again */ }
  },
};

/** A refusal of the service: its status, and a message for people. */
export class ServiceError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const MEANINGS = {
  401: "The service wants a token that it knows.",
  403: "This token may not do that.",
  404: "There is no such thing in this scope.",
  405: "The service does not serve this here.",
  413: "The request is too large for this service.",
  503: "The service cannot answer now.",
};

function meaning(status, body, retryAfter) {
  if (status === 429 || (status === 503 && retryAfter)) {
    return `The service is busy. Try again in ${retryAfter ?? "a few"} s.`;
  }
  const told = typeof body?.error?.message === "string" ? body.error.message : "";
  const known = MEANINGS[status];
  if (status === 401 || !told) return known ?? `The service answered with status ${status}.`;
  return known && status !== 405 ? `${known} (${told})` : told;
}

/** Sends a request and returns the JSON of the reply, or its text. */
async function call(method, path, { query = {}, body, signal } = {}) {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  const headers = { Accept: "application/json" };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(url, {
      method, headers, signal, credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new ServiceError(0, "The service cannot be reached.");
  }
  const isJson = (reply.headers.get("Content-Type") ?? "").includes("json");
  const given = isJson ? await reply.json().catch(() => null) : await reply.text();
  if (!reply.ok) throw new ServiceError(reply.status, meaning(reply.status, given, reply.headers.get("Retry-After")));
  return given;
}

const memory = (id) => `v1/memories/${encodeURIComponent(id)}`;

export const api = {
  info: () => call("GET", "v1/info"),
  recall: (body, signal) => call("POST", "v1/recall", { body, signal }),
  memory: (id, who) => call("GET", memory(id), { query: who }),
  history: (id, who) => call("GET", `${memory(id)}/history`, { query: who }),
  links: (id, who) => call("GET", `${memory(id)}/links`, { query: who }),
  ls: (path, who) => call("GET", "v1/browse/ls", { query: { path, ...who } }),
  cat: (path, who) => call("GET", "v1/browse/cat", { query: { path, ...who } }),
  grep: (pattern, path, regex, who) => call("GET", "v1/browse/grep", { query: { pattern, path, regex, ...who } }),
  find: (pattern, path, who) => call("GET", "v1/browse/find", { query: { pattern, path, ...who } }),
};

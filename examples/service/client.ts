// Keeps a memory and finds it again; every path, field and reply is checked by the compiler. Run by: .ci/typescript
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const [url = "http://127.0.0.1:8765", token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: token ? { Authorization: `Bearer ${token}` } : {} });

const kept = await client.POST("/v1/memories", { body: { text: "Tea at four", user_id: "ann", tags: ["plan"] } });
if (kept.error) throw new Error(kept.error.error.message);

const found = await client.POST("/v1/recall", { body: { text: "tea", user_id: "ann", limit: 3 } });
if (found.error) throw new Error(found.error.error.message);
for (const { episode, score } of found.data.items) console.log(score.toFixed(3), episode.text);

const refused = await client.POST("/v1/recall", { body: { text: "tea", user_id: "ann", limit: -1 } });
console.log(refused.response.status, refused.error?.error.message);

// @ts-expect-error: a text is a string
await client.POST("/v1/recall", { body: { text: 4, user_id: "ann" } });

// The words in which two texts differ.

const MOST = 1500; // words of a text; longer ones are shown whole, old and new

/** Runs of words as `{kind: "same" | "gone" | "new", text}`, by the longest common subsequence. */
export function wordDiff(before, after) {
  const [a, b] = [before, after].map((text) => text.match(/\s+|[^\s]+/gu) ?? []);
  if (before === after) return [{ kind: "same", text: after }];
  if (a.length > MOST || b.length > MOST) return [{ kind: "gone", text: before }, { kind: "new", text: after }];
  const width = b.length + 1;
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = a[i] === b[j]
        ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const runs = [];
  const add = (kind, text) => {
    if (runs.at(-1)?.kind === kind) runs.at(-1).text += text;
    else runs.push({ kind, text });
  };
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { add("same", b[j]); i += 1; j += 1; }
    else if (i < a.length && (j === b.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) { add("gone", a[i]); i += 1; }
    else { add("new", b[j]); j += 1; }
  }
  return runs;
}

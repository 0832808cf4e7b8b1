// The revisions with a handshake, newest first, and whom a program on an SDK is to take itself for.
const REVISIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/** The revisions that were known when the one after `--newest` was the newest; `undefined`, all, where there is no such word. */
export function revisions(words) {
  const flag = words.indexOf("--newest");
  return flag < 0 ? undefined : REVISIONS.slice(REVISIONS.indexOf(words[flag + 1]));
}

// Marks: what the work itself says happened, one JSON line each, in the file named by RESCIND_MARKS.
import { appendFileSync, readFileSync } from "node:fs";

const file = process.env.RESCIND_MARKS;

/** Appends one mark. The pid lets a client kill the server that does the work, whatever stands between. */
export function mark(work, event, fields = {}) {
  if (file) appendFileSync(file, `${JSON.stringify({ work, event, pid: process.pid, ...fields })}\n`);
}

/** Every whole line written so far. */
export function marks() {
  let text;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return [];
  }
  return text.slice(0, text.lastIndexOf("\n") + 1).split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

/** The first mark of `event` by `work`, if it is there. */
export function marked(work, event) {
  return marks().find((line) => line.work === work && line.event === event);
}

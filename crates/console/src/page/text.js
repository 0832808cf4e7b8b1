// @ts-check
// One folded text of a request, laid out if it is JSON.

import { laidOut } from "./json.js";
import { count, plainLines } from "./words.js";

/** One folded text, with a button that copies the original. @param {string} title @param {string} text @param {boolean} open */
export function block(title, text, open, length = 0) {
  const node = document.createElement("details");
  node.open = open;
  const summary = document.createElement("summary");
  summary.textContent = title;
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "quiet copy";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Could not copy";
    }
  });
  const pre = document.createElement("pre");
  pre.textContent = plainLines(laidOut(text));
  pre.tabIndex = 0;
  node.append(summary, copy, pre);
  const bytes = new TextEncoder().encode(text).length;
  if (length > bytes) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = `Cut: the first ${count(bytes)} of ${count(length)} bytes.`;
    node.append(note);
  }
  return node;
}

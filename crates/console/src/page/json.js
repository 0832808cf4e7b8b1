// @ts-check
// JSON laid out in lines without being parsed, so that no number, key or order changes.

const SPACE = /\s/;

/** The end of the string that begins at `from`. @param {string} text @param {number} from */
function stringEnd(text, from) {
  let at = from + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return Math.min(text.length, at + 1);
}

/** The text with one member on each line. Text that is cut off or invalid is laid out as far as possible. @param {string} text */
export function laidOut(text) {
  /** @type {string[]} */
  const out = [];
  let depth = 0;
  const line = () => out.push("\n", "  ".repeat(Math.max(0, Math.min(depth, 50))));
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (c === '"') {
      const end = stringEnd(text, at);
      out.push(text.slice(at, end));
      at = end - 1;
    } else if (c === "{" || c === "[") {
      let next = at + 1;
      while (next < text.length && SPACE.test(text[next])) next += 1;
      out.push(c);
      if (text[next] === "}" || text[next] === "]") {
        out.push(text[next]);
        at = next;
      } else {
        depth += 1;
        line();
      }
    } else if (c === "}" || c === "]") {
      depth -= 1;
      line();
      out.push(c);
    } else if (c === ",") {
      out.push(c);
      line();
    } else if (c === ":") {
      out.push(": ");
    } else if (!SPACE.test(c)) {
      out.push(c);
    }
  }
  return out.join("");
}

/**
 * The text of a member of the outermost object; null if it is missing or cut off.
 * @param {string} text @param {string} name
 */
export function member(text, name) {
  let depth = 0;
  let key = null;
  let start = -1;
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (c === '"') {
      const end = stringEnd(text, at);
      if (depth === 1 && start < 0) key = text.slice(at + 1, end - 1);
      at = end - 1;
    } else if (c === ":" && depth === 1 && start < 0) {
      start = at + 1;
    } else if (depth === 1 && start >= 0 && (c === "," || c === "}")) {
      if (key === name) return text.slice(start, at).trim();
      start = -1;
      if (c === "}") return null;
    } else if (c === "{" || c === "[") {
      depth += 1;
    } else if (c === "}" || c === "]") {
      depth -= 1;
    }
  }
  return null;
}

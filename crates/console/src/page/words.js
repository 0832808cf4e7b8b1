// Words for what the feed tells. Every text of a program passes `plain` before it is shown.

/** Control, invisible and direction-changing characters, which could make a text look like another. */
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text in one line: hidden characters spelled out, cut at `most` characters. */
export function plain(text, most = 300) {
  const whole = String(text);
  const cut = whole.length > most ? `${whole.slice(0, most)}…` : whole;
  return cut.replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** A text of several lines: as `plain`, with its line breaks and tabs. */
export function plainLines(text) {
  return text.replace(HIDDEN, (c) => (c === "\n" || c === "\t" ? c : `\\u{${c.codePointAt(0).toString(16)}}`));
}

/** A time as people read it, in the words of `rescind_feed::duration`. */
export function duration(micros) {
  const m = Math.max(0, Math.floor(micros));
  if (m < 1e3) return `${m} µs`;
  if (m < 1e4) return `${(m / 1e3).toFixed(1)} ms`;
  if (m < 1e6) return `${Math.floor(m / 1e3)} ms`;
  if (m < 6e7) return `${Math.floor(m / 1e6)}.${Math.floor((m % 1e6) / 1e5)} s`;
  if (m < 36e8) return `${Math.floor(m / 6e7)} min ${Math.floor((m % 6e7) / 1e6)} s`;
  return `${Math.floor(m / 36e8)} h ${Math.floor((m % 36e8) / 6e7)} min`;
}

/** The age of something that still grows: tenths of seconds only while they can be read. */
export function age(micros) {
  return micros < 1e6 ? `${Math.floor(Math.max(0, micros) / 1e5) / 10} s` : duration(micros);
}

const two = (n) => String(n).padStart(2, "0");

/** A moment on the world's clock (microseconds since 1970), with `digits` of the second's fraction. */
export function moment(micros, digits = 0) {
  const date = new Date(micros / 1e3);
  const whole = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return digits ? `${whole}.${String(date.getMilliseconds()).padStart(3, "0").slice(0, digits)}` : whole;
}

/** A number with its thousands apart. */
export const count = (n) => n.toLocaleString("en");

/** A number and its noun. */
export const several = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** What a person calls a request, as `rescind_feed::Request::label`. */
export function label(request) {
  const { id, from } = request;
  const inner = id.length > 1 && id.startsWith('"') && id.endsWith('"') ? id.slice(1, -1) : null;
  const bare = inner !== null && inner !== "null" && /^[A-Za-z0-9_.+@-]{1,64}$/.test(inner) && /[A-Za-z]/.test(inner);
  const shown = bare ? inner : id;
  return plain(from === "server" ? `server:${shown}` : shown, 64);
}

/** Programs that run another, words that stand between the two, and names that many programs share. */
const RUNNER = /^(node|deno|bun|bunx|python[\d.]*|uv|uvx|pipx|npx|npm|pnpm|yarn|ruby|java|sh|bash|env)$/;
const BETWEEN = /^(-.*|run|exec|tool|x|dlx|.*=.*)$/;
const COMMON = /^(index|main|server|cli|app|dist|build|src|lib|bin)(\.\w+)?$/;

/** What people call a session: its command's name, or that of the script or package that the command runs. */
export function command(session) {
  const parts = (word) => word.split(/[\\/]/).filter(Boolean);
  const [first = "", ...words] = session.facts.command;
  const program = parts(first).at(-1) ?? session.name;
  const script = RUNNER.test(program) ? words.find((word) => !BETWEEN.test(word)) : undefined;
  const name = script && (parts(script).findLast((part) => !COMMON.test(part)) ?? parts(script).at(-1));
  return plain(name || program, 60);
}

/** One side in words: its name and version, or that it has not told. */
export function party(side) {
  if (!side?.name) return "unnamed";
  return plain(side.version ? `${side.name} ${side.version}` : side.name, 60);
}

function ending(end) {
  if (end && typeof end === "object" && "exitCode" in end) return `exited with ${end.exitCode}`;
  if (end && typeof end === "object" && "signal" in end) return `ended by signal ${end.signal}`;
  return "end unknown";
}

/** What is known of a session that is over, or null. */
export function over(session) {
  if (session.unheard) return "not heard of since the connection came back";
  if (session.end === null) return null;
  return session.why && session.why !== "gone" ? `lost: ${plain(session.why, 120)}` : ending(session.end);
}

const GLYPHS = { queued: "○", running: "●", cancelling: "◐", stuck: "▲", answering: "◑", unknown: "?" };

/** The state that is shown: of a request whose session is gone nobody knows how far it is. */
export function shownState(request) {
  return request.state !== "ended" && request.of.isOver ? "unknown" : request.state;
}

const HOWS = { result: "result", error: "error", answered_here: "answered here", silent: "silent", gone: "requester gone" };

/** The state in a word and a sign, so that colour is never all there is. */
export function stateWords(request) {
  const state = shownState(request);
  if (state !== "ended") return { glyph: GLYPHS[state] ?? "?", text: state, tone: state };
  const { how, code } = request.settled ?? {};
  const text = (HOWS[how] ?? "ended") + (code === undefined ? "" : ` ${code}`);
  if (how === "error" && request.cancel?.outcome === "confirmed") return { glyph: "–", text: `cancelled ${code ?? ""}`.trim(), tone: "ended" };
  if (how === "error") return { glyph: "✕", text, tone: "error" };
  return { glyph: how === "result" ? "✓" : "–", text, tone: "ended" };
}

/** The sign and the tone of what is known of a cancel. */
export function outcomeWords(cancel, state) {
  if (cancel.worksOn || state === "stuck") return { glyph: "▲", tone: "stuck" };
  switch (cancel.outcome) {
    case "asked": return { glyph: "◐", tone: "cancelling" };
    case "sent": return { glyph: "→", tone: "cancelling" };
    case "confirmed": return { glyph: "✓", tone: "confirmed" };
    case "never_sent": return { glyph: "✓", tone: "confirmed" };
    case "completed_first":
    case "answered_after": return { glyph: "↩", tone: "ended" };
    default: return { glyph: "?", tone: "unknown" };
  }
}

/** The part that is done, from 0 to 1, or null where that cannot be said. */
export function part(progress) {
  const { progress: done, total } = progress ?? {};
  if (typeof done !== "number" || typeof total !== "number" || !(total > 0)) return null;
  return Math.min(1, Math.max(0, done / total));
}

/** How far, in numbers. */
export function far(progress) {
  const fraction = part(progress);
  if (fraction !== null) return `${Math.floor(fraction * 100)} %`;
  if (typeof progress.progress === "number") return `at ${count(progress.progress)}`;
  return several(progress.count, "update");
}

const CAUSES = {
  caller: "the caller", timeout: "a timeout", parent: "the cancel of its parent", disconnect: "a lost connection",
  shutdown: "a shutdown", operator: "an operator", policy: "a policy",
};

/** Who asked for a cancel. */
export const cause = (word) => CAUSES[word] ?? plain(word, 60);

// @ts-check
// Words for the values of the feed. Every text from a program passes `plain` before it is shown.

import { who } from "./mine.js";

/** The element with this id. */
export const byId = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Writes a text, unless it is there already. */
export const setText = (/** @type {Node} */ node, /** @type {string} */ text) => {
  if (node.textContent !== text) node.textContent = text;
};

/** The same of a method, which is broken behind its slashes before it is anywhere else. */
export const setMethod = (/** @type {Element} */ node, /** @type {string} */ text) => {
  if (node.textContent === text) return;
  node.replaceChildren(...text.split(/(?<=\/)/).flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part])));
};

/** Control, invisible and direction-changing characters, which could make a text look like another. */
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text in one line: hidden characters spelled out, cut at `most` characters. @param {string} text */
export function plain(text, most = 300) {
  const whole = String(text);
  const cut = whole.length > most ? `${whole.slice(0, most)}…` : whole;
  return cut.replace(HIDDEN, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);
}

/** A text of several lines: as `plain`, with its line breaks and tabs. @param {string} text */
export function plainLines(text) {
  return text.replace(HIDDEN, (c) => (c === "\n" || c === "\t" ? c : `\\u{${c.codePointAt(0)?.toString(16)}}`));
}

/** A duration as people read it, as `rescind_feed::duration`. @param {number} micros */
export function duration(micros) {
  const m = Math.max(0, Math.floor(micros));
  if (m < 1e3) return `${m} µs`;
  if (m < 1e4) return `${(m / 1e3).toFixed(1)} ms`;
  if (m < 1e6) return `${Math.floor(m / 1e3)} ms`;
  if (m < 6e7) return `${Math.floor(m / 1e6)}.${Math.floor((m % 1e6) / 1e5)} s`;
  if (m < 36e8) return `${Math.floor(m / 6e7)} min ${Math.floor((m % 6e7) / 1e6)} s`;
  return `${Math.floor(m / 36e8)} h ${Math.floor((m % 36e8) / 6e7)} min`;
}

/** A duration that still grows: below a second, in steps of 0.1 s. @param {number} micros */
export function age(micros) {
  return micros < 1e6 ? `${Math.floor(Math.max(0, micros) / 1e5) / 10} s` : duration(micros);
}

/** A size as people read it. @param {number} size */
export function bytes(size) {
  if (size < 2 ** 20) return `${Math.floor(size / 2 ** 10)} KiB`;
  return size < 2 ** 30 ? `${(size / 2 ** 20).toFixed(1)} MiB` : `${(size / 2 ** 30).toFixed(1)} GiB`;
}

const two = (/** @type {number} */ n) => String(n).padStart(2, "0");

/** A time (microseconds since 1970) on the wall clock, with `digits` of the second's fraction. @param {number} micros */
export function moment(micros, digits = 0) {
  const date = new Date(micros / 1e3);
  const whole = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return digits ? `${whole}.${String(date.getMilliseconds()).padStart(3, "0").slice(0, digits)}` : whole;
}

const dayOf = (/** @type {number} */ micros) => new Date(micros / 1e3).toDateString();
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** A moment with its day, unless that is the day of `now`. @param {number} micros @param {number} now @param {number} digits */
export function dated(micros, now, digits = 0) {
  return dayOf(micros) === dayOf(now) ? moment(micros, digits) : `${DAY.format(micros / 1e3)}, ${moment(micros, digits)}`;
}

// One for all: a busy page writes hundreds of numbers a second.
const NUMBERS = new Intl.NumberFormat("en");

/** A number with thousands separators. */
export const count = (/** @type {number} */ n) => NUMBERS.format(n);

/** A number and its noun. */
export const several = (/** @type {number} */ n, /** @type {string} */ one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** The name of a request for people, as `rescind_feed::Request::label`. @param {FeedRequest} request */
export function label(request) {
  const { id, from, child, atWork } = request;
  const inner = id.length > 1 && id.startsWith('"') && id.endsWith('"') ? id.slice(1, -1) : null;
  const bare = inner !== null && inner !== "null" && /^[A-Za-z0-9_.+@-]{1,64}$/.test(inner) && /[A-Za-z]/.test(inner);
  const shown = bare ? inner : id;
  return plain(child ? `child:${shown}` : atWork ? `task:${shown}` : from === "server" ? `server:${shown}` : shown, 64);
}

/** Programs that run another program, arguments that may stand before its name, and names that many programs share. */
const RUNNER = /^(node|deno|bun|bunx|python[\d.]*|uv|uvx|pipx|npx|npm|pnpm|yarn|ruby|java|sh|bash|env)$/;
const BETWEEN = /^(-.*|run|exec|tool|x|dlx|.*=.*)$/;
const COMMON = /^(index|main|server|cli|app|dist|build|src|lib|bin)(\.\w+)?$/;

/**
 * The name of a session for people: that of its entry in the client's configuration, of its command, or of the script or
 * package that the command runs.
 * @param {import("./store.js").Session} session
 */
export function command(session) {
  if (session.facts.entry) return plain(session.facts.entry, 60);
  const parts = (/** @type {string} */ word) => word.split(/[\\/]/).filter(Boolean);
  const [first = "", ...words] = session.facts.command;
  const program = parts(first).at(-1) ?? session.name;
  const script = RUNNER.test(program) ? words.find((word) => !BETWEEN.test(word)) : undefined;
  const name = script && (parts(script).findLast((part) => !COMMON.test(part)) ?? parts(script).at(-1));
  return plain(name || program, 60);
}

/** The client whose configuration a session is of, or an empty text. @param {import("./store.js").Session} session */
export const client = ({ facts }) => plain(facts.clientName ?? "", 40);

/** A session among others that may be called alike: its name, its client and its number. @param {import("./store.js").Session} session */
export const named = (session) => [command(session), client(session), plain(session.name, 40)].filter(Boolean).join(" ");

/** Whether the server of a session is of this machine, so that it can be ended. @param {import("./store.js").Session} session */
export const isHere = ({ facts }) => facts.serverPid !== null || !/^https?:\/\//.test(facts.command[0] ?? "");

/** One side in words: its name and version, if known. @param {FeedImplementation} side */
export function party(side) {
  if (!side?.name) return "unnamed";
  return plain(side.version ? `${side.name} ${side.version}` : side.name, 60);
}

/** @param {FeedEnd} end */
function ending(end) {
  if (typeof end === "object" && "exitCode" in end) return `exited with ${end.exitCode}`;
  if (typeof end === "object" && "signal" in end) return `ended by signal ${end.signal}`;
  return "end unknown";
}

/** What the limits of a session have refused. @param {Record<string, number> | undefined} limits */
export function limited(limits) {
  const words = Object.entries(limits ?? {}).filter(([, refused]) => refused > 0);
  return words.map(([limit, refused]) => `${count(refused)} refused by ${plain(limit, 80)}`).join(" · ") || null;
}

/** Who is connected over HTTP. @param {FeedConnected | undefined} facts */
export function connected(facts) {
  if (!facts) return null;
  const sessions = facts.sessions > 1 ? several(facts.sessions, "session") : null;
  const kept = facts.kept > 0 ? `${count(facts.kept)} kept for clients that come back` : null;
  const restarts = facts.restarts > 0 ? `started anew ${facts.restarts === 1 ? "once" : `${count(facts.restarts)} times`}` : null;
  return [sessions, `${several(facts.responses, "response")} open`, kept, restarts].filter(Boolean).join(", ");
}

/** Whether some of what its server works on cannot be seen, as `rescind_feed::Session::is_unseen`. @param {FeedSession} facts */
export const hasUnseen = ({ hidesWork, server }) => Boolean(hidesWork) || ["unknown", "codex-unseen"].includes(server.protocol);

/** How a session ended, or null. @param {import("./store.js").Session} session */
export function over(session) {
  if (session.isSilent) return "no news since the connection came back";
  if (session.end === null) return null;
  return session.why && session.why !== "gone" ? `lost: ${plain(session.why, 120)}` : ending(session.end);
}

/** The states of what is in flight. */
const OPEN = new Set(["queued", "running", "cancelling", "stuck", "answering"]);

/** Whether a request is in flight, as `rescind_feed::Request::is_open`: also in a state of a later shim, until it has settled. @param {FeedRequest} request */
export const isOpen = ({ state, settled }) => OPEN.has(state) || (!settled && state !== "released" && state !== "ended");

/** Whether it is a part of its parent's work, as `rescind_feed::Request::is_part`. @param {FeedRequest} request */
export const isPart = ({ key, parent, child }) => Boolean(child) || (parent !== undefined && parent[0] === key[0]);

/** @type {Record<string, string>} */
const GLYPHS = { queued: "○", running: "●", cancelling: "◐", stuck: "▲", answering: "◑", released: "?", unknown: "?" };

/**
 * The state to show: unknown for an open request whose session is over.
 * @param {Pick<FeedRequest, "state"> & { of: { isOver: boolean } }} request
 */
export function shownState(request) {
  return request.state !== "ended" && request.of.isOver ? "unknown" : request.state;
}

/**
 * For each state of a child its sign and tone.
 * @type {Record<string, { glyph: string, tone: string }>}
 */
const CHILDREN = {
  running: { glyph: "●", tone: "running" },
  finished: { glyph: "✓", tone: "ended" },
  cancelled: { glyph: "–", tone: "ended" },
  failed: { glyph: "✕", tone: "error" },
  history: { glyph: "–", tone: "ended" },
  closed: { glyph: "–", tone: "ended" },
};

/** @type {Record<string, string>} */
const HOWS = { result: "result", error: "error", answered_here: "answered by rescind", silent: "cancelled", gone: "gone" };

/** The code of the answer that a client gets whose request an operator has stopped. */
const STOPPED = -31003;

/** Which operator stopped a request, so that its client was told that; null if none did. @param {Shown} request */
export function stopper({ settled, cancel, of, key }) {
  const isStopped = settled?.how === "answered_here" && settled.code === STOPPED && cancel?.cause === "operator";
  return isStopped ? who(of.facts, key) : null;
}

/**
 * The state in a word and a sign, since colour alone is not enough.
 * @param {Shown} request
 */
export function stateWords(request) {
  const state = shownState(request);
  const child = request.child && !request.of.isOver ? request.child.state : null;
  if (child && !(state === "cancelling" && child === "running")) {
    return { text: plain(child, 40), ...(CHILDREN[child] ?? { glyph: "?", tone: "unknown" }) };
  }
  if (request.atWork && state === "running") return { glyph: GLYPHS[state] ?? "?", text: plain(request.atWork.status.replace("_", " "), 40), tone: state };
  const by = stopper(request);
  const stopped = by ? `stopped by ${by}` : "stopped";
  // Its client has its answer, and nothing shows that the work has ended.
  if (by !== null && (state === "released" || state === "unknown")) return { glyph: GLYPHS[state], text: `${stopped}; ${state}`, tone: "unknown" };
  if (state !== "ended") return { glyph: GLYPHS[state] ?? "?", text: plain(state, 40), tone: OPEN.has(state) ? state : "unknown" };
  const { how, code } = request.settled ?? {};
  if (by !== null) return { glyph: "■", text: stopped, tone: "ended" };
  const text = (HOWS[how ?? ""] ?? plain(how ?? "ended", 40)) + (code === undefined ? "" : ` ${code}`);
  if (how === "error" && request.cancel?.outcome === "confirmed") return { glyph: "–", text: `cancelled ${code ?? ""}`.trim(), tone: "ended" };
  if (how === "error") return { glyph: "✕", text, tone: "error" };
  return { glyph: how === "result" ? "✓" : "–", text, tone: "ended" };
}

/** The sign and the tone of a receipt. @param {FeedCancel} cancel @param {State} state */
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

/**
 * For each word of `rescind_feed::WorkStatus` its sign and tone, and what it says of the work.
 * @type {Record<string, { glyph: string, tone: string, isOver?: true, resists?: true }>}
 */
const WORK = {
  stopped: { glyph: "✓", tone: "confirmed", isOver: true },
  finished: { glyph: "↩", tone: "ended", isOver: true },
  ended: { glyph: "–", tone: "ended", isOver: true },
  stopping: { glyph: "◐", tone: "cancelling" },
  "still working": { glyph: "▲", tone: "stuck", resists: true },
  "no answer": { glyph: "▲", tone: "stuck", resists: true },
  "not delivered": { glyph: "▲", tone: "stuck", resists: true },
  unknown: { glyph: "?", tone: "unknown" },
  withdrawn: { glyph: "✓", tone: "confirmed", isOver: true },
  "with its client": { glyph: "?", tone: "unknown", isOver: true },
};

/** What a record says that the console could not read. @type {FeedWork} */
const UNREAD = { awaited: "unknown", last: "unknown", remark: "" };

/** Whether the work on a request has stopped, as `rescind stop` has it. @param {PageRequest} request @param {boolean} isAwaited @returns {Work} */
export function workOf({ cancel, of, work = UNREAD }, isAwaited) {
  const hasEnded = of.hasEnded && of.end !== "unknown";
  const known = isAwaited ? work.awaited : work.last;
  const text = hasEnded && !WORK[known].isOver ? "ended" : known;
  const { glyph, tone, resists = false } = WORK[text];
  const words = text === "ended" ? "with its server" : cancel ? plain(cancel.words) + work.remark : "";
  return { text, glyph, tone, resists, words };
}

/** The fraction done, from 0 to 1, or null if unknown. @param {FeedProgress | undefined} progress */
export function part(progress) {
  const { progress: done, total } = progress ?? {};
  if (typeof done !== "number" || typeof total !== "number" || !(total > 0)) return null;
  return Math.min(1, Math.max(0, done / total));
}

/** The progress in numbers. @param {FeedProgress} progress */
export function far(progress) {
  const fraction = part(progress);
  if (fraction !== null) return `${Math.floor(fraction * 100)} %`;
  if (typeof progress.progress === "number") return count(progress.progress);
  return progress.message ? "" : `${count(progress.count)} so far`;
}

/** @type {Record<string, string>} */
const CAUSES = {
  caller: "the caller", timeout: "a timeout", parent: "the cancel of its parent", disconnect: "a lost connection",
  shutdown: "a shutdown", policy: "a limit",
};

/** Who asked for a request's cancel. @param {PageRequest} request @param {FeedCancel} cancel */
export function cause({ of, key }, { cause }) {
  if (cause === "operator") return who(of.facts, key) || "an operator";
  return CAUSES[cause] ?? plain(cause, 60);
}

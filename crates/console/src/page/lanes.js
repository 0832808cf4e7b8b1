// @ts-check
// The layout of the timeline: the order of the lanes, which requests get a bar, and in which row.

import { isOpen } from "./words.js";

/** @typedef {import("./store.js").Session} Session */

/** The most bars of all lanes, and the least most of one; the most rows of a lane, and with open requests. */
export const BARS_MOST = 300;
const BARS_LEAST = 10;
const ROWS_MOST = 8;
const ROWS_OPEN_MOST = 24;
/** An uneventful request whose bar is narrower than this is only counted. */
const NARROW = 3;
/** Room kept for the label of a short bar, in pixels. */
const ROOM = 56;

/** Sessions that run come first, the oldest of them first, and then those that have ended, the youngest first. @param {Session} a @param {Session} b */
function inOrder(a, b) {
  if (a.isOver !== b.isOver) return a.isOver ? 1 : -1;
  return (a.facts.started - b.facts.started) * (a.isOver ? -1 : 1);
}

/**
 * The sessions as a tree: a session whose shim runs below another's server comes under that one.
 * @param {Session[]} sessions
 */
export function ordered(sessions) {
  /** @type {Map<number, Session>} */
  const byServer = new Map();
  for (const session of sessions) if (session.facts.serverPid) byServer.set(session.facts.serverPid, session);
  /** @type {Map<Session | null, Session[]>} */
  const under = new Map();
  for (const session of sessions) {
    const pid = session.facts.ancestors.find((ancestor) => byServer.has(ancestor));
    const above = pid === undefined ? null : (byServer.get(pid) ?? null);
    const key = above === session ? null : above;
    under.set(key, [...(under.get(key) ?? []), session]);
  }
  /** @type {{ session: Session, depth: number, above: Session | null }[]} */
  const lanes = [];
  const walk = (/** @type {Session | null} */ above, /** @type {number} */ depth) => {
    const below = (under.get(above) ?? []).sort(inOrder);
    for (const session of below) {
      lanes.push({ session, depth, above });
      if (depth < 8) walk(session, depth + 1);
    }
  };
  walk(null, 0);
  return lanes;
}

/**
 * The end of a request's bar: its answer, its last late message, or now.
 * @param {FeedRequest} request @param {number} clock
 */
export function ends(request, clock) {
  const settled = request.settled?.at ?? clock;
  const works = request.state === "stuck" ? clock : (request.late?.at ?? 0);
  const answered = request.cancel?.after === undefined ? 0 : request.cancel.asked + request.cancel.after;
  return { settled, last: Math.max(settled, works, answered) };
}

/**
 * Chooses what a lane draws between two times of its session's clock, at `scale` pixels a microsecond: bars, and the
 * times of requests that are only counted.
 * @param {Session} session @param {import("./filter.js").Filter} filter @param {number} from @param {number} until
 * @param {number} clock @param {number} scale @param {number} lanes
 */
export function choose(session, filter, from, until, clock, scale, lanes) {
  const most = Math.max(BARS_LEAST, Math.floor(BARS_MOST / lanes));
  /** @type {PageRequest[][]} */
  const ranks = [[], [], [], []]; // open and cancelled, open, with a cancel or something late, others
  /** @type {number[]} */
  const rest = [];
  for (const request of session.requests()) {
    const { last } = ends(request, clock);
    if (request.since > until || last < from || !filter.has(request)) continue;
    const eventful = request.cancel || request.late;
    if (isOpen(request)) ranks[request.cancel ? 0 : 1].push(request);
    else if (eventful) ranks[2].push(request);
    else if ((last - request.since) * scale >= NARROW) ranks[3].push(request);
    else rest.push(request.settled?.at ?? last);
  }
  for (const rank of [2, 3]) ranks[rank].reverse();
  const chosen = ranks.flat();
  for (const request of chosen.splice(most)) rest.push(Math.max(from, request.since));
  return { chosen, rest };
}

/**
 * Gives each request a row: the one it had if that is free, else the first free one below its parent's. Returns the rows
 * by key, and the requests without a row.
 * @param {PageRequest[]} chosen @param {Map<string, number>} before @param {number} clock @param {number} scale
 */
export function stack(chosen, before, clock, scale) {
  /** @type {Map<string, number>} */
  const rows = new Map();
  /** @type {[number, number][][]} */
  const taken = [];
  /** @type {PageRequest[]} */
  const without = [];
  /** @type {(request: PageRequest) => [number, number]} */
  const span = (request) => {
    const open = isOpen(request) && !request.of.isOver;
    return [request.since, open ? Infinity : Math.max(ends(request, clock).last, request.since + ROOM / scale)];
  };
  const free = (/** @type {number} */ row, /** @type {number} */ from, /** @type {number} */ until) => !(taken[row] ?? []).some(([start, end]) => from < end && start < until);
  const settle = (/** @type {PageRequest} */ request, /** @type {number} */ row) => {
    (taken[row] ??= []).push(span(request));
    rows.set(request.key, row);
  };
  const inOrder = [...chosen].sort((a, b) => a.since - b.since);
  /** @type {PageRequest[]} */
  const fresh = [];
  for (const request of inOrder) {
    const row = before.get(request.key);
    if (row !== undefined && free(row, ...span(request))) settle(request, row);
    else fresh.push(request);
  }
  for (const request of fresh) {
    const [from, until] = span(request);
    const parent = request.parent === undefined ? undefined : rows.get(request.parent);
    let row = parent === undefined ? 0 : parent + 1;
    const most = until === Infinity ? ROWS_OPEN_MOST : ROWS_MOST;
    while (row < most && !free(row, from, until)) row += 1;
    if (row < most) settle(request, row);
    else without.push(request);
  }
  return { rows, without };
}

// How the timeline is laid out: the order of the lanes, which requests get a bar, and in which row.

/** Bars drawn at once over all lanes, and at least in each; rows of a lane, and those that only open requests use. */
export const BARS_MOST = 300;
const BARS_LEAST = 10;
const ROWS_MOST = 8;
const ROWS_OPEN_MOST = 24;
/** A bar narrower than this is only counted, unless there is something to tell of it. */
const NARROW = 3;
/** Room kept for the label of a short bar, in pixels. */
const ROOM = 56;

/** The sessions as a tree: one whose shim runs below another's server comes under it. */
export function ordered(sessions) {
  const byServer = new Map();
  for (const session of sessions) if (session.facts.serverPid) byServer.set(session.facts.serverPid, session);
  const under = new Map();
  for (const session of sessions) {
    const pid = session.facts.ancestors.find((ancestor) => byServer.has(ancestor));
    const above = pid === undefined ? null : byServer.get(pid);
    const key = above === session ? null : above;
    under.set(key, [...(under.get(key) ?? []), session]);
  }
  const lanes = [];
  const walk = (above, depth) => {
    const below = (under.get(above) ?? []).sort((a, b) => a.facts.started - b.facts.started);
    for (const session of below) {
      lanes.push({ session, depth, above });
      if (depth < 8) walk(session, depth + 1);
    }
  };
  walk(null, 0);
  return lanes;
}

/** Where a request's bar ends: with its answer, with what came late, or not yet. */
export function ends(request, clock) {
  const settled = request.settled?.at ?? clock;
  const works = request.state === "stuck" ? clock : (request.late?.at ?? 0);
  const answered = request.cancel?.after === undefined ? 0 : request.cancel.asked + request.cancel.after;
  return { settled, last: Math.max(settled, works, answered) };
}

/**
 * Chooses what a lane draws between two times of its session's clock, at `scale` pixels a microsecond: bars, and the
 * moments of the requests that are only counted.
 */
export function choose(session, filter, from, until, clock, scale, lanes) {
  const most = Math.max(BARS_LEAST, Math.floor(BARS_MOST / lanes));
  const ranks = [[], [], [], []]; // open and cancelled, open, with a cancel or something late, others
  const rest = [];
  for (const request of session.requests()) {
    const { last } = ends(request, clock);
    if (request.since > until || last < from || !filter.has(request)) continue;
    const told = request.cancel || request.late;
    if (request.state !== "ended") ranks[request.cancel ? 0 : 1].push(request);
    else if (told) ranks[2].push(request);
    else if ((last - request.since) * scale >= NARROW) ranks[3].push(request);
    else rest.push(request.settled?.at ?? last);
  }
  for (const rank of [2, 3]) ranks[rank].reverse();
  const chosen = ranks.flat();
  for (const request of chosen.splice(most)) rest.push(Math.max(from, request.since));
  return { chosen, rest };
}

/**
 * Gives each request a row: its own of before if it had one, else the first that is free, below its parent's. Returns
 * the rows by key, and the requests that found none.
 */
export function stack(chosen, before, clock, scale) {
  const rows = new Map();
  const taken = [];
  const without = [];
  const span = (request) => {
    const open = request.state !== "ended" && !request.of.isOver;
    return [request.since, open ? Infinity : Math.max(ends(request, clock).last, request.since + ROOM / scale)];
  };
  const free = (row, from, until) => !(taken[row] ?? []).some(([start, end]) => from < end && start < until);
  const settle = (request, row) => {
    (taken[row] ??= []).push(span(request));
    rows.set(request.key, row);
  };
  const inOrder = [...chosen].sort((a, b) => a.since - b.since);
  const fresh = [];
  for (const request of inOrder) {
    const row = before.get(request.key);
    if (row !== undefined && free(row, ...span(request))) settle(request, row);
    else fresh.push(request);
  }
  for (const request of fresh) {
    const [from, until] = span(request);
    let row = request.parent && rows.has(request.parent) ? rows.get(request.parent) + 1 : 0;
    const most = until === Infinity ? ROWS_OPEN_MOST : ROWS_MOST;
    while (row < most && !free(row, from, until)) row += 1;
    if (row < most) settle(request, row);
    else without.push(request);
  }
  return { rows, without };
}

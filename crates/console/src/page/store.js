// What the page knows: a copy of every session's state, kept in step by the feed and bounded.

import { plain } from "./words.js";

/** Requests in flight that are kept of a session; more are only counted. */
export const OPEN_MOST = 2000;
/** Ended requests that are kept of a session: plain ones, and ones with something to tell. */
export const PLAIN_MOST = 1500;
export const TOLD_MOST = 500;
/** Sessions that are over and still listed. */
export const OVER_MOST = 50;
/** Steps of a request's history, and counts of brief requests: a quarter of a second each, ten minutes. */
const TRAIL_MOST = 20;
const BRIEF_STEP = 250_000;
const BRIEF_MOST = 2400;
/** Microseconds within which a session that is over is told of. */
const AT_ONCE = 2e6;

/** The page's clock in microseconds since 1970; unlike the world's it never goes back. */
export const pageNow = () => (performance.timeOrigin + performance.now()) * 1e3;

/** Whether a request that is over has something to tell. */
const tells = (request) => request.cancel || request.late || request.settled?.how !== "result";

/** One session: its facts, its requests by key, its clock. */
export class Session {
  /** Requests in flight; ended ones with nothing to tell; other ended ones. Each in the order of its coming. */
  open = new Map();
  ended = new Map();
  told = new Map();
  /** What each request with a cancel or words of progress went through, by key. */
  trails = new Map();
  /** Where requests lie that are only counted: [moment, how many], on the session's clock. */
  brief = [];
  /** How many requests are in flight, listed or not; how many were only counted or are forgotten. */
  inFlight = 0;
  counted = 0;
  forgotten = 0;
  /** How it ended, once it has; gone without a word is over too. */
  end = null;
  /** Where its clock stopped. */
  stopped = Infinity;
  /** Why nothing more is known of it, where that is all that is known. */
  why = null;
  /** A new stream was begun that has not told of it yet. */
  unheard = false;

  constructor(name, facts) {
    this.name = name;
    this.facts = facts;
    this.offset = -facts.started;
    this.heard = 0;
    this.met = pageNow();
  }

  /** Nobody knows how its open requests go on. */
  get isOver() {
    return this.stopped !== Infinity || this.unheard;
  }

  /** It is known to have ended. A session is over, too, when nothing is heard of it any more. */
  get hasEnded() {
    return this.end !== null && (this.why === null || this.why === "gone");
  }

  /** Its clock when the page's clock shows `at`. */
  clock(at) {
    if (this.unheard) return this.heard;
    return Math.max(0, Math.min(this.stopped, Math.max(this.heard, at + this.offset)));
  }

  /** Where a time of its clock lies on the page's. */
  moment(time) {
    return time - this.offset;
  }

  /** The record of a key, wherever it is kept. */
  request(key) {
    return this.open.get(key) ?? this.told.get(key) ?? this.ended.get(key);
  }

  *requests() {
    yield* this.open.values();
    yield* this.told.values();
    yield* this.ended.values();
  }

  /** Learns what its clock shows now. The least delayed word is the truest. */
  hear(now, at, fresh) {
    this.heard = now;
    this.offset = fresh ? now - at : Math.max(this.offset, now - at);
  }

  /** Takes in a record; returns it where its cancel says something new. */
  take(record) {
    const { key } = record;
    const known = this.request(key);
    record.of = this;
    record.uid = `${this.name}/${key}`;
    const news = this.note(known, record);
    if (record.state !== "ended") {
      if (!known && this.open.size >= OPEN_MOST && !record.cancel) return null;
      this.ended.delete(key);
      this.told.delete(key);
      this.open.set(key, record);
      if (this.open.size > 2 * OPEN_MOST) this.forget(this.open);
    } else if (tells(record)) {
      this.open.delete(key);
      this.ended.delete(key);
      this.told.set(key, record);
      if (this.told.size > TOLD_MOST) this.forget(this.told);
    } else {
      this.open.delete(key);
      this.ended.set(key, record);
      if (this.ended.size > PLAIN_MOST) this.forget(this.ended);
    }
    return news ? record : null;
  }

  /** Keeps the steps of a cancel and the words of progress. */
  note(known, record) {
    const words = record.cancel?.words;
    const said = record.progress?.message;
    const news = words !== undefined && words !== known?.cancel?.words;
    const told = said !== undefined && (said !== known?.progress?.message || record.progress.at !== known?.progress?.at);
    if (!news && !told) return false;
    let trail = this.trails.get(record.key);
    if (!trail) this.trails.set(record.key, (trail = { cancel: [], progress: [] }));
    if (news) push(trail.cancel, { at: this.heard, text: plain(words) });
    if (told) push(trail.progress, { at: record.progress.at, text: plain(said) });
    return news && known !== undefined;
  }

  /** Forgets the oldest of a list; where it lay is still counted. */
  forget(list) {
    const [key, record] = list.entries().next().value;
    list.delete(key);
    this.trails.delete(key);
    this.forgotten += 1;
    this.count(record.settled?.at ?? record.since, 1);
  }

  /** Counts requests that came and went. */
  count(at, many) {
    const step = Math.floor(at / BRIEF_STEP) * BRIEF_STEP;
    const last = this.brief.at(-1);
    if (last && last[0] >= step) last[1] += many;
    else this.brief.push([step, many]);
    if (this.brief.length > BRIEF_MOST) this.brief.shift();
  }

  /** As it is now, for good. */
  frozen() {
    const copy = Object.assign(Object.create(Session.prototype), this);
    for (const list of ["open", "ended", "told"]) copy[list] = new Map(this[list]);
    copy.brief = this.brief.map((entry) => [...entry]);
    return copy;
  }
}

function push(list, step) {
  list.push(step);
  if (list.length > TRAIL_MOST) list.shift();
}

/** All sessions, what is shown of them, and whether the connection stands. */
export class Store {
  sessions = new Map();
  /** What the console has found: sessions that have not answered yet, those that do not, what is not used; or null. */
  fleet = null;
  /** Rises with everything learnt. */
  version = 0;
  /** When the connection was lost, on the page's clock. */
  lost = null;
  /** What was shown when the page was paused. */
  pause = null;
  /** Told of a request whose cancel says something new. */
  onCancel = () => {};

  /** The moment that is shown, on the page's clock. */
  at() {
    return this.pause?.at ?? this.lost ?? pageNow();
  }

  /** The sessions that are shown. */
  shown() {
    return this.pause ? this.pause.sessions : [...this.sessions.values()];
  }

  find(session, key) {
    return this.sessions.get(session)?.request(key);
  }

  setPaused(paused) {
    this.pause = paused ? { at: this.lost ?? pageNow(), sessions: this.shown().map((session) => session.frozen()), changes: 0 } : null;
    this.version += 1;
  }

  /** Applies one event of the feed. */
  apply(name, kind, event, why) {
    this.version += 1;
    if (kind === "snapshot") return this.restart(name, event);
    const session = this.sessions.get(name);
    if (!session) return undefined;
    if (kind === "changes") return this.change(session, event);
    if (session.end === null) {
      session.why = why ?? null;
      this.stop(session, event?.now ?? session.clock(this.lost ?? pageNow()), event?.how ?? "unknown");
    }
    return undefined;
  }

  stop(session, now, how) {
    session.stopped = now;
    session.heard = now;
    session.end = how;
    // What was over before it was told of, as a recording is, is shown at the time it had.
    const told = pageNow();
    if (told - session.met < AT_ONCE && Math.abs(session.facts.started + now - told) > AT_ONCE) session.offset = -session.facts.started;
    const over = [...this.sessions.values()].filter((known) => known.end !== null);
    for (const old of over.slice(0, Math.max(0, over.length - OVER_MOST))) this.sessions.delete(old.name);
  }

  restart(name, event) {
    const before = this.sessions.get(name);
    const session = new Session(name, event.session);
    session.hear(event.now, pageNow(), true);
    if (before?.facts.started === event.session.started) {
      // Keys are never used again, so what ended is still true; what was in flight is told again.
      for (const kept of ["ended", "told", "trails", "brief", "counted", "forgotten"]) session[kept] = before[kept];
    }
    this.sessions.set(name, session);
    // What is forgotten first is what ended first.
    event.requests.sort((a, b) => (a.settled?.at ?? a.since) - (b.settled?.at ?? b.since));
    this.fill(session, event);
  }

  change(session, event) {
    session.unheard = false;
    session.hear(event.now, pageNow(), false);
    if (event.session) session.facts = event.session;
    if (event.brief) {
      session.counted += event.brief;
      session.count(event.now, event.brief);
    }
    if (this.pause) this.pause.changes += event.requests.length + event.brief;
    this.fill(session, event);
  }

  fill(session, event) {
    session.inFlight = event.inFlight;
    for (const record of event.requests) {
      const news = session.take(record);
      if (news) this.onCancel(news);
    }
  }

  /** The connection is back. A stream that was begun anew tells of every session that runs; others are not heard of. */
  reconnected(anew) {
    if (this.lost === null) return;
    this.lost = null;
    if (anew) for (const session of this.sessions.values()) session.unheard = !session.isOver;
    this.version += 1;
  }

  dismiss(name) {
    this.sessions.delete(name);
    if (this.pause) this.pause.sessions = this.pause.sessions.filter((session) => session.name !== name);
    this.version += 1;
  }
}

// @ts-check
// The state of the page: a bounded copy of every session, updated by the feed.

import { isOpen, plain } from "./words.js";

/** The most requests in flight kept of a session; further ones are only counted. */
export const OPEN_MOST = 2000;
/** The most ended requests kept of a session: uneventful ones, and eventful ones. */
export const PLAIN_MOST = 1500;
export const EVENTFUL_MOST = 500;
/** The most requests kept of a session that were cancelled and are not known to have ended. */
export const RELEASED_MOST = 1000;
/** The most ended sessions that stay listed. */
export const OVER_MOST = 50;
/** The most steps of a request's history; the width of a count of brief requests in microseconds, and the most counts. */
const TRAIL_MOST = 20;
const BRIEF_STEP = 250_000;
const BRIEF_MOST = 2400;
/** How long a session that ended before the page's eyes, with something in flight, stays among those that run, in microseconds. */
const LINGER = 60e6;
/** A session that ends within this many microseconds of its first event is a past one, such as a recording. */
const AT_ONCE = 2e6;

/** The page's clock in microseconds since 1970. Unlike the wall clock it never goes back. */
export const pageNow = () => (performance.timeOrigin + performance.now()) * 1e3;

/** Whether an ended request is more than a plain result. */
const isEventful = (/** @type {FeedRequest} */ request) => request.cancel || request.late || request.settled?.how !== "result";

/** One session: its description, its requests by key, its clock. */
export class Session {
  /** Requests in flight; released ones; uneventful ended ones; eventful ended ones. Each by key, in the order of arrival. */
  open = /** @type {Map<string, PageRequest>} */ (new Map());
  released = /** @type {Map<string, PageRequest>} */ (new Map());
  ended = /** @type {Map<string, PageRequest>} */ (new Map());
  eventful = /** @type {Map<string, PageRequest>} */ (new Map());
  /** The histories of cancels and of progress messages, by key. */
  trails = /** @type {Map<string, { cancel: Step[], progress: Step[] }>} */ (new Map());
  /** Requests that are only counted: [time on the session's clock, how many]. */
  brief = /** @type {[number, number][]} */ ([]);
  /** How many requests are in flight, listed or not; how many were only counted, or are forgotten. */
  inFlight = 0;
  counted = 0;
  forgotten = 0;
  /** How it ended; null while it runs. */
  end = /** @type {FeedEnd | null} */ (null);
  /** Where its clock stopped. */
  stopped = Infinity;
  /** Why there is no news of it, if its end is not known. */
  why = /** @type {string | null} */ (null);
  /** A new stream began and has not reported it yet. */
  isSilent = false;
  /** When the page learnt of its end, on the page's clock. */
  overSince = Infinity;

  /** @param {string} name @param {FeedSession} facts @param {boolean} isPast it is of the history: it had ended before the page was opened */
  constructor(name, facts, isPast) {
    this.name = name;
    this.facts = facts;
    this.isPast = isPast;
    this.offset = -facts.started;
    /** Its clock in the last event. */
    this.latest = 0;
    this.met = pageNow();
  }

  /** Whether there is no news of its open requests any more. */
  get isOver() {
    return this.stopped !== Infinity || this.isSilent;
  }

  /** Whether it is known to have ended. A session is also over when there is no news of it. */
  get hasEnded() {
    return this.end !== null && (this.why === null || this.why === "gone");
  }

  /** Its clock when the page's clock is `at`. @param {number} at */
  clock(at) {
    if (this.isSilent) return this.latest;
    return Math.max(0, Math.min(this.stopped, Math.max(this.latest, at + this.offset)));
  }

  /** A time of its clock on the page's clock. @param {number} time */
  moment(time) {
    return time - this.offset;
  }

  /** The request with this key. @param {string} key */
  request(key) {
    return this.open.get(key) ?? this.released.get(key) ?? this.eventful.get(key) ?? this.ended.get(key);
  }

  *requests() {
    yield* this.open.values();
    yield* this.released.values();
    yield* this.eventful.values();
    yield* this.ended.values();
  }

  /** Adjusts its clock to an event; the least delayed event counts. @param {number} now @param {number} at @param {boolean} fresh */
  adjustClock(now, at, fresh) {
    this.latest = now;
    this.offset = fresh ? now - at : Math.max(this.offset, now - at);
  }

  /** Stores a record; returns it if its receipt changed. @param {FeedRequest} received */
  store(received) {
    const { key } = received;
    const known = this.request(key);
    /** @type {PageRequest} */
    const record = Object.assign(received, { of: /** @type {Session} */ (this), uid: `${this.name}/${key}` });
    const news = this.note(known, record);
    if (isOpen(record)) {
      if (!known && this.open.size >= OPEN_MOST && !record.cancel) return null;
      this.keep(this.open, record, 2 * OPEN_MOST);
    } else if (record.state === "released") this.keep(this.released, record, RELEASED_MOST);
    else if (isEventful(record)) this.keep(this.eventful, record, EVENTFUL_MOST);
    else this.keep(this.ended, record, PLAIN_MOST);
    return news ? record : null;
  }

  /** Keeps a record in one list, which has `most` at most. @param {Map<string, PageRequest>} list @param {PageRequest} record @param {number} most */
  keep(list, record, most) {
    for (const other of [this.open, this.released, this.eventful, this.ended]) if (other !== list) other.delete(record.key);
    list.set(record.key, record);
    if (list.size > most) this.forget(list);
  }

  /** Adds to the histories; true if a receipt changed. @param {FeedRequest | undefined} known @param {FeedRequest} record */
  note(known, record) {
    const words = record.cancel?.words;
    const { progress } = record;
    const message = progress?.message;
    const news = words !== undefined && words !== known?.cancel?.words;
    const moved = message !== undefined && (message !== known?.progress?.message || progress?.at !== known?.progress?.at);
    if (!news && !moved) return false;
    let trail = this.trails.get(record.key);
    if (!trail) this.trails.set(record.key, (trail = { cancel: [], progress: [] }));
    if (news) push(trail.cancel, { at: this.latest, text: plain(words) });
    if (moved && progress) push(trail.progress, { at: progress.at, text: plain(message) });
    return news && known !== undefined;
  }

  /** Forgets the oldest request of a list, which then is only counted. @param {Map<string, PageRequest>} list */
  forget(list) {
    const [oldest] = list;
    if (!oldest) return;
    const [key, record] = oldest;
    list.delete(key);
    this.trails.delete(key);
    this.forgotten += 1;
    this.count(record.settled?.at ?? record.since, 1);
  }

  /** Counts requests that came and ended. @param {number} at @param {number} many */
  count(at, many) {
    const step = Math.floor(at / BRIEF_STEP) * BRIEF_STEP;
    const last = this.brief.at(-1);
    if (last && last[0] >= step) last[1] += many;
    else this.brief.push([step, many]);
    if (this.brief.length > BRIEF_MOST) this.brief.shift();
  }

  /** A copy that does not change. */
  frozen() {
    /** @type {Session} */
    const copy = Object.assign(Object.create(Session.prototype), this);
    copy.open = new Map(this.open);
    copy.released = new Map(this.released);
    copy.ended = new Map(this.ended);
    copy.eventful = new Map(this.eventful);
    copy.brief = this.brief.map(([at, many]) => [at, many]);
    return copy;
  }
}

/** @param {Step[]} list @param {Step} step */
function push(list, step) {
  list.push(step);
  if (list.length > TRAIL_MOST) list.shift();
}

/** All sessions, which of them are shown, and the state of the connection. */
export class Store {
  sessions = /** @type {Map<string, Session>} */ (new Map());
  /** The console's summary of the sessions; null until it is received. */
  fleet = /** @type {Fleet | null} */ (null);
  /** All that is shown is recorded, so that nothing of it can be stopped, ended or waited for. */
  isRecorded = false;
  /** Grows with every change. */
  version = 0;
  /** When the connection was lost, on the page's clock; null while it stands. */
  lost = /** @type {number | null} */ (null);
  /** What was shown when the page was paused. */
  pause = /** @type {{ at: number, sessions: Session[], changes: number } | null} */ (null);
  /** Called with a request whose receipt changed. */
  onCancel = (/** @type {PageRequest} */ _request) => {};

  /** The time that is shown, on the page's clock. */
  at() {
    return this.pause?.at ?? this.lost ?? pageNow();
  }

  /** All sessions, as they are or as they were when the page was paused. */
  all() {
    return this.pause ? this.pause.sessions : [...this.sessions.values()];
  }

  /** Those that run, and those that cannot be folded yet. */
  shown() {
    return this.#split(false);
  }

  /** Those that have ended, the last end first. */
  past() {
    const end = (/** @type {Session} */ session) => session.moment(session.stopped);
    return this.#split(true).sort((a, b) => end(b) - end(a));
  }

  /**
   * A session that ended before the page's eyes stays in sight while nothing else runs, and for a while if it left
   * something in flight: its end is what its user looks for then.
   * @param {boolean} isFolded
   */
  #split(isFolded) {
    const all = this.all();
    const runs = all.some((session) => !session.hasEnded);
    const before = this.at() - LINGER;
    const stays = (/** @type {Session} */ session) => !session.isPast && (!runs || (session.open.size > 0 && session.overSince > before));
    return all.filter((session) => isFolded === (session.hasEnded && !this.isRecorded && !stays(session)));
  }

  /** @param {string} session @param {string} key */
  find(session, key) {
    return this.sessions.get(session)?.request(key);
  }

  /** @param {boolean} paused */
  setPaused(paused) {
    this.pause = paused ? { at: this.lost ?? pageNow(), sessions: this.all().map((session) => session.frozen()), changes: 0 } : null;
    this.version += 1;
  }

  /**
   * Applies one event of the feed. Of a session that is gone, `why` is all there is.
   * @param {string} name @param {"snapshot" | "changes" | "ended" | "gone"} kind
   * @param {any} event the JSON of that kind of event @param {string} [why] @param {boolean} [past] it is of the history
   */
  apply(name, kind, event, why, past = false) {
    this.version += 1;
    if (kind === "snapshot") return this.restart(name, event, past);
    const session = this.sessions.get(name);
    if (!session) return undefined;
    if (kind === "changes") return this.change(session, event);
    if (session.end === null) {
      session.why = why ?? null;
      this.stop(session, event?.now ?? session.clock(this.lost ?? pageNow()), event?.how ?? "unknown");
    }
    return undefined;
  }

  /** @param {Session} session @param {number} now @param {FeedEnd} how */
  stop(session, now, how) {
    session.stopped = now;
    session.latest = now;
    session.end = how;
    session.overSince = pageNow();
    // A past session, such as a recording, is shown at its own time.
    const at = pageNow();
    if (at - session.met < AT_ONCE && Math.abs(session.facts.started + now - at) > AT_ONCE) session.offset = -session.facts.started;
    const over = [...this.sessions.values()].filter((known) => known.end !== null);
    // Those that ended first go first, whenever the page learnt of them.
    over.sort((a, b) => a.facts.started + a.stopped - (b.facts.started + b.stopped));
    for (const old of over.slice(0, Math.max(0, over.length - OVER_MOST))) this.sessions.delete(old.name);
  }

  /** @param {string} name @param {FeedSnapshot} event @param {boolean} past */
  restart(name, event, past) {
    const before = this.sessions.get(name);
    const session = new Session(name, event.session, past);
    session.adjustClock(event.now, pageNow(), true);
    if (before && before.facts.started === event.session.started) {
      // Keys are never reused, so ended requests stay true; those in flight are in the snapshot.
      const { ended, eventful, trails, brief, counted, forgotten } = before;
      Object.assign(session, { ended, eventful, trails, brief, counted, forgotten });
    }
    // In the order of their starts, whichever the console found first: every list of them has this order.
    const later = before ? [] : [...this.sessions].filter(([, other]) => other.facts.started > session.facts.started);
    for (const [other] of later) this.sessions.delete(other);
    this.sessions.set(name, session);
    for (const [other, one] of later) this.sessions.set(other, one);
    // In the order of their ends, since the first is forgotten first.
    event.requests.sort((a, b) => (a.settled?.at ?? a.since) - (b.settled?.at ?? b.since));
    this.fill(session, event);
  }

  /** @param {Session} session @param {FeedChanges} event */
  change(session, event) {
    session.isSilent = false;
    session.adjustClock(event.now, pageNow(), false);
    if (event.session) session.facts = event.session;
    if (event.brief) {
      session.counted += event.brief;
      session.count(event.now, event.brief);
    }
    if (this.pause) this.pause.changes += event.requests.length + event.brief;
    this.fill(session, event);
  }

  /** @param {Session} session @param {FeedSnapshot | FeedChanges} event */
  fill(session, event) {
    session.inFlight = event.inFlight;
    for (const record of event.requests) {
      const changed = session.store(record);
      if (changed) this.onCancel(changed);
    }
  }

  /**
   * Handles a restored connection. A stream that began anew reports every running session; until then there is no news.
   * @param {boolean} anew
   */
  reconnected(anew) {
    if (this.lost === null) return;
    this.lost = null;
    if (anew) for (const session of this.sessions.values()) session.isSilent = !session.isOver;
    this.version += 1;
  }

  /** @param {string} name */
  dismiss(name) {
    this.sessions.delete(name);
    if (this.pause) this.pause.sessions = this.pause.sessions.filter((session) => session.name !== name);
    this.version += 1;
  }
}

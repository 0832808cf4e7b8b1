// @ts-check
// The timeline: a lane for each session, drawn as far as it is visible.

import { Bar, ROW } from "./bar.js";
import { choose, ordered, stack } from "./lanes.js";
import { byId, client, command, connected, count, hasUnseen, isHere, limited, moment, named, over, party, plain, setText, several } from "./words.js";

/** @typedef {import("./store.js").Session} Session */

/** In microseconds: the shortest and longest span, the time before a lane shrinks, the time between two layouts. */
const SPAN_LEAST = 1e4;
const SPAN_MOST = 7 * 864e8;
const HEIGHT_KEPT = 3e6;
const LAYOUT_EVERY = 1e5;
/** In pixels: a column of the strip, the least distance of ticks, and the movement that is still a click. */
const COLUMN = 4;
const TICK = 96;
const SLIP = 4;
const STEPS = [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1.5e7, 3e7, 6e7, 12e7, 3e8, 6e8, 18e8, 36e8, 108e8, 216e8, 864e8];

export class Timeline {
  /** The visible span in microseconds, up to `end` on the page's clock; null is now. */
  span = 60e6;
  all = false;
  end = /** @type {number | null} */ (null);
  picked = /** @type {string | null} */ (null);
  /** Only its heading is shown. */
  isFolded = false;
  #lanes = /** @type {Map<string, Lane>} */ (new Map());
  #ticks = /** @type {HTMLElement[]} */ ([]);
  #laidOut = -Infinity;
  #version = -1;
  #drawn = "";
  #met = false;

  /**
   * @param {import("./store.js").Store} store @param {import("./filter.js").Filter} filter
   * @param {{ pick: (uid: string) => void, end: (session: Session) => void, dismissed: () => void }} actions
   */
  constructor(store, filter, { pick, end, dismissed }) {
    this.endServer = end;
    this.dismiss = (/** @type {string} */ name) => {
      store.dismiss(name);
      dismissed();
    };
    this.store = store;
    this.filter = filter;
    this.section = byId("timeline");
    this.axis = byId("axis");
    this.list = byId("lanes");
    this.toggle = byId("timeline-toggle");
    this.followButton = byId("follow");
    this.zoomButtons = /** @type {HTMLElement[]} */ ([...byId("zoom").children]);
    const template = (/** @type {string} */ id) => /** @type {HTMLTemplateElement} */ (byId(id));
    this.templates = { lane: template("lane-template"), bar: template("bar-template") };
    this.width = 600;
    new ResizeObserver(() => {
      this.width = Math.max(50, this.axis.clientWidth);
      this.#version = -1;
    }).observe(this.axis);
    this.#controls(pick);
  }

  /** @param {(uid: string) => void} pick */
  #controls(pick) {
    for (const button of this.zoomButtons) {
      button.addEventListener("click", () => this.zoomTo(button.dataset.span ?? "all"));
    }
    this.followButton.addEventListener("click", () => this.follow());
    // On a phone the requests come first.
    const narrow = matchMedia("(max-width: 46rem)");
    const narrowed = () => this.#fold(narrow.matches);
    narrow.addEventListener("change", narrowed);
    this.toggle.addEventListener("click", () => {
      narrow.removeEventListener("change", narrowed);
      this.#fold(!this.isFolded);
    });
    narrowed();
    const zoom = (/** @type {WheelEvent} */ event, /** @type {boolean} */ always) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
      if (sideways) this.pan((sideways / this.width) * this.span);
      else if (always || event.ctrlKey) this.zoom(Math.exp(event.deltaY / 400), this.#under(event));
      else return;
      event.preventDefault();
    };
    this.axis.addEventListener("wheel", (event) => zoom(event, true), { passive: false });
    this.list.addEventListener("wheel", (event) => zoom(event, false), { passive: false });

    /** @type {{ x: number, end: number, moved: boolean } | null} */
    let grip = null;
    this.list.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && /** @type {HTMLElement} */ (event.target).closest(".track")) grip = { x: event.clientX, end: this.#sight().until, moved: false };
    });
    this.list.addEventListener("pointermove", (event) => {
      if (!grip || event.buttons === 0) return;
      const by = event.clientX - grip.x;
      grip.moved ||= Math.abs(by) > SLIP;
      if (grip.moved) this.#look(grip.end - (by / this.width) * this.span);
    });
    this.list.addEventListener("click", (event) => {
      const uid = /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (event.target).closest(".bar"))?.dataset.uid;
      if (uid && !grip?.moved) pick(uid);
      grip = null;
    });
  }

  #fold(/** @type {boolean} */ isFolded) {
    this.isFolded = isFolded;
    this.toggle.setAttribute("aria-expanded", String(!isFolded));
    this.section.classList.toggle("is-folded", isFolded);
    this.#version = -1;
  }

  /** The place of a pointer on the track, from 0 to 1. @param {MouseEvent} event */
  #under(event) {
    const box = this.axis.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / this.width));
  }

  /** @param {string} span seconds, or `all` */
  zoomTo(span) {
    this.all = span === "all";
    if (!this.all) this.span = Number(span) * 1e6;
    else this.end = null;
    this.#changed();
  }

  /** Makes the span `by` times as long, `around` a place in it. @param {number} by */
  zoom(by, around = 1) {
    const { until } = this.#sight();
    const span = Math.min(SPAN_MOST, Math.max(SPAN_LEAST, this.span * by));
    const end = until + (span - this.span) * (1 - around);
    this.span = span;
    this.all = false;
    if (this.end !== null) this.#look(end);
    this.#changed();
  }

  /** @param {number} by */
  pan(by) {
    this.#look(this.#sight().until + by);
  }

  follow() {
    this.end = null;
    this.#changed();
  }

  /** Lays everything out in the next frame. */
  redraw() {
    this.#version = -1;
  }

  /** Shows the span that ends at `end`; follows now if that is not in the past. @param {number} end */
  #look(end) {
    const span = this.span;
    this.all = false;
    this.span = span;
    this.end = end >= this.#now() ? null : end;
    this.#changed();
  }

  #changed() {
    this.followButton.setAttribute("aria-pressed", String(this.end === null));
    this.#showSpan();
    this.anew();
  }

  /** Forgets the places of all bars: the selection or the visible span has changed. */
  anew() {
    for (const lane of this.#lanes.values()) lane.forgetPlaces();
    this.#version = -1;
  }

  #showSpan() {
    for (const button of this.zoomButtons) {
      const on = button.dataset.span === "all" ? this.all : !this.all && Number(button.dataset.span) * 1e6 === this.span;
      button.setAttribute("aria-pressed", String(on));
    }
  }

  /** Now, or the end of the last session if all are over. */
  #now() {
    const at = this.store.at();
    const sessions = this.store.shown();
    if (!sessions.length || sessions.some((session) => !session.isOver)) return at;
    return Math.max(...sessions.map((session) => session.moment(session.clock(at))));
  }

  /** @returns {Sight} */
  #sight() {
    const now = this.#now();
    if (this.all) {
      const first = Math.min(now - 1e6, ...this.store.shown().map(earliest));
      this.span = Math.min(SPAN_MOST, (now - first) * 1.02);
    }
    const until = this.end ?? now + this.span * 0.01;
    return { from: until - this.span, until };
  }

  /** Whether the next frame lays everything out, whatever moves. */
  get isDue() {
    return this.#version === -1;
  }

  /** Draws a frame: everything after a change, else only what moved. @param {number} at */
  frame(at) {
    const sight = this.#sight();
    const scale = this.width / this.span;
    const due = this.#version === -1 || (this.#version !== this.store.version && at - this.#laidOut >= LAYOUT_EVERY);
    const stale = at - this.#laidOut >= 5 * LAYOUT_EVERY;
    const drawn = `${Math.round(sight.until * scale)}/${this.span}/${this.width}`;
    if (due || stale) this.#layOut(sight, scale, at);
    else if (drawn === this.#drawn || this.isFolded) return;
    this.#drawn = drawn;
    if (this.isFolded) return;
    this.#drawAxis(sight, scale);
    for (const lane of this.#lanes.values()) lane.place(sight, scale, this.width, this.store.at());
  }

  /** @param {Sight} sight @param {number} scale @param {number} at */
  #layOut(sight, scale, at) {
    this.#laidOut = at;
    this.#version = this.store.version;
    const lanes = ordered(this.store.shown());
    const focused = /** @type {HTMLElement | null} */ (this.list.contains(document.activeElement) ? document.activeElement : null);
    // If every session is past, everything is shown at first.
    if (lanes.length && !this.#met) this.all = lanes.every(({ session }) => session.isOver);
    if (lanes.length && !this.#met) this.#showSpan();
    this.#met ||= lanes.length > 0;
    this.section.hidden = lanes.length === 0;
    const there = new Set(lanes.map(({ session }) => session.name));
    for (const [name, lane] of this.#lanes) {
      if (there.has(name)) continue;
      lane.node.remove();
      this.#lanes.delete(name);
    }
    /** @type {HTMLElement | null} */
    let before = null;
    for (const { session, depth, above } of lanes) {
      const lane = this.#lanes.get(session.name) ?? new Lane(this.templates, this.dismiss, this.endServer);
      this.#lanes.set(session.name, lane);
      /** @type {ChildNode | null} */
      const place = before ? before.nextSibling : this.list.firstChild;
      if (place !== lane.node) this.list.insertBefore(lane.node, place);
      before = lane.node;
      lane.describe(session, depth, above);
      if (!this.isFolded) lane.layOut(this.filter, sight, scale, this.store.at(), at, lanes.length, this.picked);
    }
    // A lane that was moved, and a button that is hidden, have lost it.
    if (focused && document.activeElement !== focused) {
      const lane = focused.closest(".lane");
      const next = focused.checkVisibility() ? focused : [...(lane?.querySelectorAll("button") ?? [])].find((button) => button.checkVisibility());
      (next ?? this.toggle).focus({ preventScroll: true });
    }
  }

  /** @param {Sight} sight @param {number} scale */
  #drawAxis({ from, until }, scale) {
    const step = STEPS.find((step) => step * scale >= TICK) ?? STEPS[STEPS.length - 1];
    // Steps count from local midnights and hours, not from those of UTC.
    const shift = new Date(until / 1e3).getTimezoneOffset() * 6e7;
    let used = 0;
    for (let time = Math.ceil((from - shift) / step) * step + shift; time <= until; time += step) {
      const tick = (this.#ticks[used] ??= this.axis.appendChild(document.createElement("span")));
      used += 1;
      const digits = step >= 1e6 ? 0 : step >= 1e5 ? 1 : step >= 1e4 ? 2 : 3;
      const text = moment(time, digits);
      if (tick.textContent !== text) tick.textContent = text;
      tick.style.transform = `translateX(${((time - from) * scale).toFixed(1)}px)`;
      tick.hidden = false;
    }
    for (const tick of this.#ticks.slice(used)) tick.hidden = true;
  }
}

/** The earliest time of a session with anything to show. @param {Session} session */
function earliest(session) {
  let first = session.latest;
  for (const request of session.requests()) first = Math.min(first, request.since);
  if (session.brief.length) first = Math.min(first, session.brief[0][0]);
  return session.moment(first);
}

/** A session's lane. */
class Lane {
  rows = /** @type {Map<string, number>} */ (new Map());
  #bars = /** @type {Map<string, Bar>} */ (new Map());
  #spare = /** @type {Bar[]} */ ([]);
  #rest = /** @type {number[]} */ ([]);
  #height = 0;
  #lowSince = /** @type {number | null} */ (null);
  #stripDrawn = "";
  session = /** @type {Session | null} */ (null);
  /** The colour of the strip. */
  ink = /** @type {string | null} */ (null);

  /**
   * @param {Record<"lane" | "bar", HTMLTemplateElement>} templates @param {(name: string) => void} dismiss
   * @param {(session: Session) => void} end
   */
  constructor(templates, dismiss, end) {
    this.template = templates.bar;
    this.node = /** @type {HTMLElement} */ (templates.lane.content.firstElementChild?.cloneNode(true));
    const of = (/** @type {string} */ name) => /** @type {HTMLElement} */ (this.node.querySelector(name));
    this.title = of("h3 .name");
    this.client = of("h3 .client");
    this.who = of(".who");
    this.alerts = of(".alerts");
    this.facts = of(".facts");
    this.dismissButton = of(".dismiss");
    this.endButton = of(".end");
    this.bars = of(".bars");
    this.counted = of(".strip-count");
    this.strip = /** @type {HTMLCanvasElement} */ (of(".strip"));
    this.dismissButton.addEventListener("click", () => this.session && dismiss(this.session.name));
    this.endButton.addEventListener("click", () => this.session && end(this.session));
  }

  /** Writes the heading. @param {Session} session @param {number} depth @param {Session | null} above */
  describe(session, depth, above) {
    this.session = session;
    const { facts } = session;
    setText(this.title, command(session));
    const of = client(session);
    const introduced = facts.client.name === facts.clientName ? ` ${plain(facts.client.version ?? "", 20)}` : facts.client.name ? ` (${party(facts.client)})` : "";
    setText(this.client, of);
    setText(this.who, `${of ? `${of}${introduced}`.trimEnd() : party(facts.client)} → ${party(facts.server)}`);
    this.who.title = this.who.textContent ?? "";
    const protocols = [...new Set([facts.client.protocol, facts.server.protocol])].map((name) => plain(name, 40));
    const held = session.open.size;
    const released = session.released.size ? `${count(session.released.size)} not known to have stopped` : null;
    const unseen = session.inFlight > held ? `${count(session.inFlight - held)} more in flight` : null;
    const hidden = facts.hidesWork ? "its background work cannot be seen" : "its work cannot be seen";
    const work = hasUnseen(facts) ? hidden : null;
    const unkept = facts.unkeptChildren || facts.unkeptTasks || facts.unkeptReleased ? "not all of its work is listed" : null;
    const restarts = facts.restarts ? several(facts.restarts.count, "restart") : null;
    const starts = facts.starting === undefined ? null : "its server has not started yet; its client was greeted from the cache";
    const waits = facts.signingIn ? "waits for a person to sign in" : facts.restarting ? "its server is being started again" : starts;
    const unread = facts.heldUpBy ? `its ${facts.heldUpBy} does not read` : null;
    const owner = facts.owner ? `of ${plain(facts.owner, 40)}` : null;
    const folder = facts.entry && facts.folder ? `in ${plain(facts.folder, 120)}` : null;
    const alerts = [over(session), waits, unread, unseen, released, limited(facts.limits), work, unkept, restarts];
    setText(this.alerts, alerts.filter(Boolean).join(" · "));
    const words = [connected(facts.connected), owner, folder, protocols.join(" / "), plain(session.name, 40)];
    setText(this.facts, words.filter(Boolean).join(" · "));
    this.facts.title = this.facts.textContent ?? "";
    this.title.title = facts.command.map((word) => plain(word, 200)).join(" ");
    this.node.dataset.session = session.name;
    this.node.classList.toggle("is-over", session.isOver);
    this.node.classList.toggle("is-under", depth > 0);
    this.node.style.setProperty("--depth", String(depth));
    this.dismissButton.hidden = !session.isOver;
    this.dismissButton.setAttribute("aria-label", `Dismiss ${named(session)}`);
    this.endButton.hidden = session.isOver || !isHere(session);
    this.endButton.setAttribute("aria-label", `End the server of ${named(session)}…`);
    this.node.title = above ? `started by ${command(above)}` : "";
  }

  forgetPlaces() {
    this.rows.clear();
    this.#height = 0;
  }

  /**
   * @param {import("./filter.js").Filter} filter @param {Sight} sight @param {number} scale @param {number} at
   * @param {number} page the page's time @param {number} lanes @param {string | null} picked
   */
  layOut(filter, { from, until }, scale, at, page, lanes, picked) {
    const { session } = this;
    if (!session) return;
    const clock = session.clock(at);
    const [first, last] = [from + session.offset, until + session.offset];
    const { chosen, rest } = choose(session, filter, first, last, clock, scale, lanes);
    const { rows, without } = stack(chosen, this.rows, clock, scale);
    this.rows = rows;
    for (const request of without) rest.push(request.since);
    this.#rest = rest;

    const unused = new Map(this.#bars);
    for (const request of chosen) {
      const row = rows.get(request.key);
      if (row === undefined) continue;
      let bar = this.#bars.get(request.key);
      if (bar) unused.delete(request.key);
      else {
        bar = this.#spare.pop() ?? new Bar(this.template);
        this.#bars.set(request.key, bar);
        if (!bar.node.parentNode) this.bars.append(bar.node);
      }
      const parent = request.parent === undefined ? undefined : rows.get(request.parent);
      const up = parent === undefined ? 0 : row - parent;
      bar.show(request, row, Math.max(0, up), picked === request.uid);
    }
    for (const [key, bar] of unused) {
      this.#bars.delete(key);
      bar.node.hidden = bar.node.isOut = true;
      delete bar.node.dataset.uid;
      this.#spare.push(bar);
    }
    for (const bar of this.#spare.splice(50)) bar.node.remove();

    this.#fit(Math.max(1, ...[...rows.values()].map((row) => row + 1)), page);
    this.#stripDrawn = "";
  }

  /** Sets the height: a lane grows at once, and shrinks only after a while. @param {number} rows @param {number} page */
  #fit(rows, page) {
    if (rows >= this.#height) this.#lowSince = null;
    else this.#lowSince ??= page;
    if (rows > this.#height || (this.#lowSince !== null && page - this.#lowSince > HEIGHT_KEPT)) {
      this.#height = rows;
      this.#lowSince = null;
      this.bars.style.height = `${rows * ROW}px`;
    }
  }

  /** @param {Sight} sight @param {number} scale @param {number} width @param {number} at */
  place({ from, until }, scale, width, at) {
    const { session } = this;
    if (!session) return;
    const clock = session.clock(at);
    const x = (/** @type {number} */ time) => (session.moment(time) - from) * scale;
    for (const bar of this.#bars.values()) bar.place(x, clock, width);
    this.#drawStrip(session, x, from + session.offset, until + session.offset, scale, width);
  }

  /**
   * Draws the number of requests without a bar, by columns.
   * @param {Session} session @param {(time: number) => number} x @param {number} first @param {number} last
   * @param {number} scale @param {number} width
   */
  #drawStrip(session, x, first, last, scale, width) {
    const drawn = `${Math.round(x(0))}/${width}`;
    if (drawn === this.#stripDrawn) return;
    this.#stripDrawn = drawn;
    /** @type {Map<number, number>} */
    const columns = new Map();
    let sum = 0;
    const add = (/** @type {number} */ from, /** @type {number} */ many, /** @type {number} */ spread) => {
      sum += many;
      const start = Math.floor(x(from) / COLUMN);
      const wide = Math.max(1, Math.round((spread * scale) / COLUMN));
      for (let column = start; column < start + wide; column += 1) columns.set(column, (columns.get(column) ?? 0) + many / wide);
    };
    for (const [time, many] of session.brief) if (time >= first && time <= last) add(time, many, 250_000);
    for (const time of this.#rest) if (time >= first && time <= last) add(time, 1, 0);
    this.strip.hidden = this.counted.hidden = sum === 0;
    if (sum === 0) return;
    const text = `${count(sum)} more, only counted`;
    if (this.counted.textContent !== text) this.counted.textContent = text;
    const ratio = devicePixelRatio || 1;
    if (this.strip.width !== Math.round(width * ratio)) this.strip.width = Math.round(width * ratio);
    if (this.strip.height !== Math.round(14 * ratio)) this.strip.height = Math.round(14 * ratio);
    const pen = this.strip.getContext("2d");
    if (!pen) return;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, 14);
    pen.fillStyle = this.ink ??= getComputedStyle(this.strip).color;
    for (const [column, many] of columns) {
      const high = Math.min(14, 3 + Math.log2(1 + many) * 1.4);
      pen.fillRect(column * COLUMN, 14 - high, COLUMN - 1, high);
    }
  }
}

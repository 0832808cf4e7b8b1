// @ts-check
// The sessions that have ended, folded into one line; opened, a line for each, and its requests below that.

import { byId, client, command, count, dated, duration, label, named, outcomeWords, over, plain, setText, several, stateWords, stopper } from "./words.js";

/** @typedef {import("./store.js").Session} Session */

/** The most requests of one session that are listed. */
const LISTED = 200;

/** @param {HTMLElement} button */
const isOpen = (button) => button.getAttribute("aria-expanded") === "true";

/** @param {string} className @param {string} text */
function span(className, text) {
  const made = document.createElement("span");
  made.className = className;
  made.textContent = text;
  return made;
}

export class Past {
  /** The lines of the sessions, by name. */
  #lines = /** @type {Map<string, Line>} */ (new Map());
  /** What was drawn: sessions that have ended change no more. */
  #drawn = /** @type {Session[] | null} */ (null);
  #day = "";

  /**
   * @param {import("./store.js").Store} store @param {import("./filter.js").Filter} filter
   * @param {(uid: string) => void} open shows the details of a request
   */
  constructor(store, filter, open) {
    this.store = store;
    this.filter = filter;
    this.section = byId("past");
    this.toggle = byId("past-toggle");
    this.list = byId("past-list");
    this.template = /** @type {HTMLTemplateElement} */ (byId("past-template"));
    this.toggle.addEventListener("click", () => {
      this.toggle.setAttribute("aria-expanded", String(!isOpen(this.toggle)));
      this.redraw();
      this.render();
    });
    this.list.addEventListener("click", (event) => {
      const uid = /** @type {HTMLElement} */ (event.target).closest("button")?.dataset.uid;
      if (uid) open(uid);
    });
    this.section.addEventListener("keydown", (event) => this.#move(event));
  }

  /** The arrows go from line to line. @param {KeyboardEvent} event */
  #move(event) {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    const stops = [...this.section.querySelectorAll("button")].filter((button) => button.checkVisibility());
    const next = stops[stops.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement)) + by];
    event.preventDefault();
    next?.focus();
  }

  /** Draws it anew: the selection has changed. */
  redraw() {
    this.#drawn = null;
  }

  render() {
    // The first hour of another day changes how moments are written.
    const day = new Date(this.store.at() / 1e3).toDateString();
    const past = this.store.past();
    const drawn = this.#drawn;
    if (drawn?.length === past.length && past.every((session, index) => session === drawn[index]) && this.#day === day) return;
    this.#drawn = past;
    this.#day = day;
    this.section.hidden = past.length === 0;
    const shown = this.filter.isEmpty ? past : past.filter((session) => this.#some(session));
    setText(byId("past-count"), shown.length === past.length ? count(past.length) : `${count(shown.length)} of ${count(past.length)}`);
    this.list.hidden = !isOpen(this.toggle) || !shown.length;
    if (this.list.hidden) return;
    const there = new Set(shown.map((session) => session.name));
    for (const [name, line] of this.#lines) {
      if (there.has(name)) continue;
      this.#lines.delete(name);
      if (line.node.contains(document.activeElement)) this.toggle.focus();
      line.node.remove();
    }
    let before = /** @type {HTMLElement | null} */ (null);
    for (const session of shown) {
      const line = this.#lines.get(session.name) ?? new Line(this.template, () => this.#fill(session.name));
      this.#lines.set(session.name, line);
      // Sessions are added, and stay in their order: no line that has the focus moves.
      const place = /** @type {ChildNode | null} */ (before ? before.nextSibling : this.list.firstChild);
      if (place !== line.node) this.list.insertBefore(line.node, place);
      before = line.node;
      line.describe(session, this.store.at());
      line.fill(session, this.#selected(session), this.store.at());
    }
  }

  /** Fills one line that was opened or closed. @param {string} name */
  #fill(name) {
    const session = this.store.past().find((one) => one.name === name);
    if (session) this.#lines.get(name)?.fill(session, this.#selected(session), this.store.at());
  }

  /** @param {Session} session */
  #some(session) {
    for (const request of session.requests()) if (this.filter.has(request)) return true;
    return false;
  }

  /** Its requests that the filter selects, the last end first. @param {Session} session */
  #selected(session) {
    const end = (/** @type {PageRequest} */ request) => request.settled?.at ?? Infinity;
    return () => [...session.requests()].filter((request) => this.filter.has(request)).sort((a, b) => end(b) - end(a));
  }
}

/** A session that has ended. */
class Line {
  #shown = "";

  /** @param {HTMLTemplateElement} template @param {() => void} fill */
  constructor(template, fill) {
    this.node = /** @type {HTMLElement} */ (template.content.firstElementChild?.cloneNode(true));
    const of = (/** @type {string} */ name) => /** @type {HTMLElement} */ (this.node.querySelector(name));
    this.button = of("button");
    this.list = of("ul");
    this.name = of(".name");
    this.client = of(".client");
    this.facts = of(".facts");
    this.number = of(".number");
    this.button.addEventListener("click", () => {
      this.button.setAttribute("aria-expanded", String(!isOpen(this.button)));
      fill();
    });
  }

  /** @param {Session} session @param {number} now */
  describe(session, now) {
    let [requests, failed, cancelled] = [session.counted + session.forgotten, 0, 0];
    for (const request of session.requests()) {
      requests += 1;
      if (request.cancel) cancelled += 1;
      else if (request.settled?.how === "error") failed += 1;
    }
    const words = [
      `${session.end === "unknown" ? "last seen" : "ended"} ${dated(session.moment(session.stopped), now)} after ${duration(session.stopped)}`, over(session),
      several(requests, "request"), failed ? several(failed, "error") : null, cancelled ? `${count(cancelled)} cancelled` : null,
      session.facts.folder ? `in ${plain(session.facts.folder, 80)}` : null,
    ];
    setText(this.name, command(session));
    setText(this.client, client(session));
    setText(this.facts, words.filter(Boolean).join(" · "));
    setText(this.number, plain(session.facts.name, 40));
    this.node.dataset.session = session.name;
    this.list.setAttribute("aria-label", `Requests of ${named(session)}`);
  }

  /** @param {Session} session @param {() => PageRequest[]} selected @param {number} now */
  fill(session, selected, now) {
    this.list.hidden = !isOpen(this.button);
    if (this.list.hidden) return;
    const requests = selected();
    const listed = requests.slice(0, LISTED);
    const whose = listed.filter((request) => request.cancel).map((request) => `${stopper(request)} ${request.cancel?.words}`);
    const sign = [requests.length, ...listed.map((request) => request.key), ...whose, dated(session.moment(0), now)].join("\n");
    if (this.#shown === sign) return;
    this.#shown = sign;
    const focused = /** @type {HTMLElement | null} */ (this.list.contains(document.activeElement) ? document.activeElement : null)?.dataset.uid;
    const lines = listed.map((request) => line(request, now));
    const left = requests.length - listed.length + session.counted + session.forgotten;
    if (left || !lines.length) {
      const rest = document.createElement("li");
      rest.className = "note";
      const words = [requests.length > listed.length ? `${count(requests.length - listed.length)} more are not listed here` : "", session.counted ? `${count(session.counted)} more were only counted` : ""];
      rest.textContent = words.filter(Boolean).join("; ") || "No request is kept of it.";
      lines.push(rest);
    }
    this.list.replaceChildren(...lines);
    if (focused !== undefined) [...this.list.querySelectorAll("button")].find((button) => button.dataset.uid === focused)?.focus();
  }
}

/** One request. @param {PageRequest} request @param {number} now */
function line(request, now) {
  const made = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.uid = request.uid;
  const state = stateWords(request);
  const { settled, cancel, of } = request;
  const glyph = span("glyph", state.glyph);
  glyph.setAttribute("aria-hidden", "true");
  const how = span(`how is-${state.tone}`, "");
  how.append(glyph, state.text);
  const learnt = span("learnt", cancel ? plain(cancel.words, 120) : "");
  if (cancel) learnt.classList.add(`is-${outcomeWords(cancel, request.state).tone}`);
  button.append(
    span("what", plain(request.name || request.method, 80)), " ", span("mono dim", request.name ? plain(request.method, 60) : ""), " ", how, " ",
    span("took", settled ? duration(settled.at - request.since) : ""), " ", learnt, " ",
    span("when", settled ? dated(of.moment(settled.at), now) : ""), " ", span("number", label(request)),
  );
  made.append(button);
  return made;
}

// @ts-check
// Stops everything that the filter selects, shows what becomes of it, and ends the servers of what would not stop.

import { cancel, post } from "./orders.js";
import { pageNow } from "./store.js";
import { byId, count, isHere, isOpen, label, named, plain, setText, several, workOf } from "./words.js";

/** @typedef {import("./store.js").Session} Session */

/** How long to wait for what settles, in microseconds, and when a protocol's silence lets nothing more be expected. */
const WITHIN = 10e6;
const QUIET = 5e6;
/** Time for the cancel of an outer session to arrive in the sessions that its server has started, in milliseconds. */
const HEAD_START = 500;
/** The most requests of one order, and the most that are listed. */
const ORDER = 1000;
const LISTED = 200;

export class Stop {
  /** The requests that are being stopped, as last seen; null before the question is answered. */
  #stopped = /** @type {PageRequest[] | null} */ (null);
  /** When it was ordered, on the page's clock. */
  #at = 0;
  /** Why a session's order failed. */
  #errors = /** @type {Map<string, string>} */ (new Map());
  /** Sessions whose servers were ordered to end. */
  #ended = /** @type {Set<string>} */ (new Set());

  /** @param {import("./store.js").Store} store @param {import("./filter.js").Filter} filter @param {(text: string) => void} say */
  constructor(store, filter, say) {
    this.store = store;
    this.filter = filter;
    this.say = say;
    this.button = /** @type {HTMLButtonElement} */ (byId("stop-open"));
    this.dialog = /** @type {HTMLDialogElement} */ (byId("stop"));
    this.reason = /** @type {HTMLInputElement} */ (byId("stop-reason"));
    this.send = /** @type {HTMLButtonElement} */ (byId("stop-send"));
    this.kill = /** @type {HTMLButtonElement} */ (byId("stop-kill"));
    this.killUnknown = /** @type {HTMLButtonElement} */ (byId("stop-kill-unknown"));
    this.list = byId("stop-list");
    this.button.addEventListener("click", () => this.open());
    byId("stop-close").addEventListener("click", () => this.dialog.close());
    byId("stop-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#order();
    });
    this.kill.addEventListener("click", () => this.#end(({ resists }) => resists));
    this.killUnknown.addEventListener("click", () => this.#end(({ text }) => text === "unknown"));
    this.dialog.addEventListener("close", () => {
      this.#stopped = null;
    });
  }

  /** What would be stopped: what is in flight, worked on or not known to have ended, and selected. The pause of the page does not hide any. */
  selected() {
    const live = [...this.store.sessions.values()].filter((session) => !session.isOver);
    const meant = (/** @type {PageRequest} */ request) => (isOpen(request) || request.state === "released" || request.cancel?.worksOn) && this.filter.has(request);
    return live.flatMap((session) => [...session.open.values(), ...session.released.values(), ...session.eventful.values()].filter(meant));
  }

  /** Asks. */
  open() {
    if (this.button.disabled || this.dialog.open) return;
    this.#stopped = null;
    this.#errors.clear();
    this.#ended.clear();
    this.reason.value = "";
    this.list.replaceChildren();
    this.dialog.showModal();
    this.render();
    byId("stop-close").focus();
  }

  render() {
    this.button.disabled = ![...this.store.sessions.values()].some((session) => !session.isOver && session.open.size + session.released.size);
    setText(this.button, this.filter.isEmpty ? "Stop everything…" : "Stop what is selected…");
    if (this.#stopped) this.#show(this.#stopped);
    else if (this.dialog.open) this.#ask(this.selected());
  }

  /** @param {PageRequest[]} selected */
  #ask(selected) {
    const sessions = new Set(selected.map((request) => request.of.name)).size;
    setText(byId("stop-title"), `Stop ${several(selected.length, "request")} in ${several(sessions, "session")}?`);
    const live = [...this.store.sessions.values()].filter((session) => !session.isOver);
    const all = live.reduce((sum, session) => sum + session.inFlight, 0);
    const released = selected.filter((request) => request.state === "released").length;
    const others = Math.max(0, all - selected.filter((request) => request.state !== "ended").length + released);
    const before = released ? `${several(released, "of these was", "of these were")} cancelled before, and not known to have stopped. ` : "";
    const words = !others ? "" : this.filter.isEmpty ? `The page does not list ${count(others)} more: \`rescind stop\` stops those, too.`
      : `The filter leaves out ${several(others, "request")} in flight.`;
    setText(byId("stop-note"), before + words);
    byId("stop-form").hidden = false;
    this.send.disabled = !selected.length;
    this.kill.hidden = true;
    this.killUnknown.hidden = true;
    setText(byId("stop-close"), "Do not stop");
    setText(byId("stop-summary"), "");
    setText(byId("stop-servers"), "");
    setText(byId("stop-unknown"), "");
  }

  #order() {
    const requests = this.selected();
    if (!requests.length) return;
    const reason = this.reason.value.trim();
    this.#stopped = requests;
    this.#at = pageNow();
    const shims = new Set(requests.map((request) => request.of.facts.pid));
    /** @type {Map<Session, PageRequest[]>} */
    const bySession = new Map();
    for (const request of requests) bySession.set(request.of, [...(bySession.get(request.of) ?? []), request]);
    for (const [session, list] of bySession) {
      const isInside = session.facts.ancestors.some((pid) => shims.has(pid));
      if (isInside) setTimeout(() => this.#cancel(session, list, reason), HEAD_START);
      else this.#cancel(session, list, reason);
    }
    this.render();
    byId("stop-close").focus();
  }

  /** Cancels what is not cancelled yet, and orders again what a client still waits for. @param {Session} session @param {PageRequest[]} list @param {string} reason */
  async #cancel(session, list, reason) {
    const now = (/** @type {PageRequest} */ request) => this.store.find(session.name, request.key) ?? request;
    const keys = list.map(now).filter((request) => (isOpen(request) && !request.cancel) || request.mayBeReleased).map((request) => request.key);
    for (let first = 0; first < keys.length; first += ORDER) {
      const requests = keys.slice(first, first + ORDER);
      const { error } = await cancel(session, requests, reason);
      if (error !== null) this.#errors.set(session.name, error);
    }
    this.render();
  }

  /** @param {PageRequest[]} before */
  #show(before) {
    const now = pageNow();
    const passed = now - this.#at;
    const stopped = before.map((request) => this.store.find(request.of.name, request.key) ?? request);
    this.#stopped = stopped;
    const isAwaited = (/** @type {PageRequest} */ { of, cancel, from, late, state }) => {
      // What was cancelled long before has been silent since.
      const silent = state === "released" ? of.clock(now) - Math.max(cancel?.written ?? Infinity, late?.at ?? 0) : 0;
      const isQuiet = cancel && (!cancel.confirms || from === "server") && cancel.written !== undefined && !cancel.worksOn && Math.max(passed, silent) > QUIET;
      return passed < WITHIN && !isQuiet && !this.#errors.has(of.name);
    };
    const works = stopped.map((request) => workOf(request, isAwaited(request)));
    /** @type {Map<string, number>} */
    const counts = new Map([["stopped", 0]]);
    for (const { text } of works) counts.set(text, (counts.get(text) ?? 0) + 1);
    const isSettled = works.every(({ text }) => text !== "stopping");
    const summary = [...counts].map(([text, many]) => `${count(many)} ${text}`).join(", ");
    const sessions = new Set(stopped.map((request) => request.of.name)).size;
    const title = `${isSettled ? "Result" : "Stopping"}: ${several(stopped.length, "request")} in ${several(sessions, "session")}`;
    setText(byId("stop-title"), title);
    if (byId("stop-summary").textContent !== summary) {
      setText(byId("stop-summary"), summary);
      this.say(`${title}: ${summary}`);
    }
    const errors = [...this.#errors].map(([name, error]) => `${plain(name, 60)}: ${error}.`);
    const more = stopped.length > LISTED ? [`${count(stopped.length - LISTED)} more are not listed here.`] : [];
    setText(byId("stop-note"), [...errors, ...more].join(" "));
    byId("stop-form").hidden = true;
    setText(byId("stop-close"), "Close");
    this.#lines(stopped, works);
    this.#offer(stopped, works, isSettled);
  }

  /** @param {PageRequest[]} stopped @param {Work[]} works */
  #lines(stopped, works) {
    stopped.slice(0, LISTED).forEach((request, index) => {
      const { text, glyph, tone, words } = works[index];
      let line = /** @type {HTMLElement | undefined} */ (this.list.children[index]);
      if (!line) {
        line = document.createElement("li");
        line.append(document.createElement("span"), document.createElement("strong"));
        this.list.append(line);
      }
      line.dataset.uid = request.uid;
      line.className = `is-${tone}`;
      const name = `${named(request.of)}/${label(request)} ${plain(request.name || request.method, 60)}`;
      setText(/** @type {Node} */ (line.firstChild), name);
      setText(/** @type {Node} */ (line.lastChild), `${glyph} ${text}${words ? `: ${words}` : ""}`);
    });
  }

  /** The sessions that run and have a request whose work is such. @param {PageRequest[]} stopped @param {Work[]} works @param {(work: Work) => boolean} isMeant */
  #having(stopped, works, isMeant) {
    const sessions = new Set(stopped.filter((_, index) => isMeant(works[index])).map((request) => request.of.name));
    return [...sessions].flatMap((name) => this.store.sessions.get(name) ?? []).filter((session) => !session.isOver);
  }

  /** Offers to end servers. @param {PageRequest[]} stopped @param {Work[]} works @param {boolean} isSettled */
  #offer(stopped, works, isSettled) {
    const offered = (/** @type {Session[]} */ sessions) => (isSettled ? sessions.filter((session) => !this.#ended.has(session.name)) : []);
    const resisting = offered(this.#having(stopped, works, ({ resists }) => resists));
    // A connection that is closed ends nothing that is worked on elsewhere.
    const unknown = offered(this.#having(stopped, works, ({ text }) => text === "unknown")).filter((session) => isHere(session) && !resisting.includes(session));
    const keys = new Set(stopped.map((request) => request.uid));
    const line = (/** @type {Session} */ session) => {
      const others = [...session.open.values()].filter((request) => !keys.has(request.uid)).length;
      return `${named(session)}${others ? ` (${several(others, "other request")} in flight would end with it)` : ""}`;
    };
    const show = (/** @type {HTMLButtonElement} */ button, /** @type {string} */ id, /** @type {string} */ words, /** @type {Session[]} */ sessions) => {
      const wasHidden = button.hidden;
      button.hidden = !sessions.length;
      if (button.hidden && !wasHidden) byId("stop-close").focus();
      setText(byId(id), sessions.length ? `${words}: ${sessions.map(line).join("; ")}.` : "");
      if (!button.hidden && wasHidden) this.say(`Some requests are left. ${byId(id).textContent}`);
    };
    setText(this.kill, `End ${several(resisting.length, "server")} of what would not stop`);
    setText(this.killUnknown, `End ${several(unknown.length, "server")} of what is not known to have stopped`);
    show(this.kill, "stop-servers", "Would not stop", resisting);
    show(this.killUnknown, "stop-unknown", "Not known to have stopped", unknown);
  }

  /** Ends the servers that are offered for such work. @param {(work: Work) => boolean} isMeant */
  async #end(isMeant) {
    const stopped = this.#stopped ?? [];
    const sessions = this.#having(stopped, stopped.map((request) => workOf(request, false)), isMeant);
    await Promise.all(sessions.map(async (session) => {
      this.#ended.add(session.name);
      const { error } = await post(session.name, "end", { started: session.facts.started });
      if (error === null) return;
      this.#ended.delete(session.name);
      this.#errors.set(session.name, `not ended: ${error}`);
    }));
    this.render();
  }
}

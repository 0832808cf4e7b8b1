// @ts-check
// The details pane: one request, its receipt and messages, and the form to cancel it.

import { Arguments } from "./arguments.js";
import { Messages } from "./messages.js";
import { cancel } from "./orders.js";
import { pageNow } from "./store.js";
import {
  age, byId, cause, client, command, dated, duration, far, isOpen, isPart, label, moment, named, outcomeWords, over, party,
  plain, setText, several, shownState, stateWords, stopper,
} from "./words.js";

/** @typedef {import("./store.js").Session} Session */

/** @type {Record<string, string>} */
const HOW = {
  result: "with a result", error: "with an error", answered_here: "with an answer from the shim",
  silent: "without an answer, as its protocol prescribes", gone: "because its requester disconnected",
};

/**
 * Fills `node` with the result of `build`, unless `sign` shows that it is unchanged. What had the focus keeps it.
 * @param {Signed} node @param {string} sign @param {() => Node[]} build
 */
function fill(node, sign, build) {
  if (node.sign === sign) return;
  node.sign = sign;
  const key = node.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.key : undefined;
  node.replaceChildren(...build());
  if (key !== undefined) /** @type {HTMLElement | undefined} */ ([...node.querySelectorAll("button")].find((button) => button.dataset.key === key))?.focus();
}

/** @template {keyof HTMLElementTagNameMap} K @param {K} name @param {string} text @param {string} [className] */
function element(name, text, className) {
  const node = document.createElement(name);
  node.textContent = text;
  if (className) node.className = className;
  return node;
}

/**
 * Facts as lines of a list: names that stay, and texts that change in place.
 * @param {HTMLElement} list @param {[string, string | undefined | false][]} lines
 */
function facts(list, lines) {
  const known = /** @type {[string, string][]} */ (lines.filter(([, text]) => text));
  fill(list, known.map(([name]) => name).join("\n"), () =>
    known.map(([name]) => {
      const line = document.createElement("div");
      line.append(element("dt", name), element("dd", ""));
      return line;
    }),
  );
  known.forEach(([, text], index) => setText(/** @type {Node} */ (list.children[index].lastChild), text));
}

/** @param {HTMLElement} list @param {Step[]} steps @param {Session} session */
function steplist(list, steps, session) {
  const lines = steps.map(({ at, text }) => `${moment(session.moment(at), 1)}  ${text}`);
  fill(list, lines.join("\n"), () => lines.map((line) => element("li", line)));
}

export class Details {
  /** The request: its session's name and its key. */
  subject = /** @type {{ session: string, key: string } | null} */ (null);
  /** The last record of it. */
  last = /** @type {PageRequest | null | undefined} */ (null);
  #sending = false;

  /** @param {import("./store.js").Store} store @param {{ changed: () => void, focus: () => void }} actions */
  constructor(store, { changed, focus }) {
    this.store = store;
    this.changed = changed;
    this.focus = focus;
    this.pane = byId("pane");
    this.form = byId("cancel");
    this.reason = /** @type {HTMLInputElement} */ (byId("reason"));
    this.submit = /** @type {HTMLButtonElement} */ (byId("cancel-send"));
    this.note = byId("cancel-note");
    this.arguments = new Arguments();
    this.messages = new Messages();
    byId("pane-close").addEventListener("click", () => this.close());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    byId("kin").addEventListener("click", (event) => {
      const { key } = /** @type {HTMLElement} */ (event.target).closest("button")?.dataset ?? {};
      if (key && this.subject) this.open(this.subject.session, key);
    });
  }

  get uid() {
    return this.subject && `${this.subject.session}/${this.subject.key}`;
  }

  get request() {
    return this.subject && this.store.find(this.subject.session, this.subject.key);
  }

  /** Shows a request; with `toCancel` the reason gets the focus. @param {string} session @param {string} key */
  open(session, key, toCancel = false) {
    if (this.subject?.session !== session || this.subject?.key !== key) {
      this.subject = { session, key };
      this.last = this.request;
      this.reason.value = "";
      this.#setNote("");
      this.arguments.about(this.subject);
      this.messages.about(this.subject);
    }
    this.pane.hidden = false;
    document.body.classList.add("has-pane");
    this.render();
    this.changed();
    if (toCancel && !this.form.hidden) (this.reason.hidden ? this.submit : this.reason).focus();
    else byId("pane-title").focus();
  }

  close() {
    if (!this.subject) return;
    this.subject = null;
    this.pane.hidden = true;
    document.body.classList.remove("has-pane");
    this.arguments.about(null);
    this.messages.about(null);
    this.changed();
    this.focus();
  }

  render() {
    if (!this.subject) return;
    const live = this.request;
    this.last = live ?? this.last;
    const request = this.last;
    if (!request) return;
    const session = this.store.sessions.get(this.subject.session) ?? request.of;
    const clock = session.clock(this.store.lost ?? pageNow());
    const shown = shownState(request);
    const open = request.state !== "ended";

    setText(byId("pane-title"), plain(request.name || request.method, 200));
    setText(byId("pane-sub"), `${request.name ? `${plain(request.method, 120)} · ` : ""}${named(session)}/${label(request)}`);
    const state = stateWords(request);
    const took = request.settled ? duration(request.settled.at - request.since) : age(clock - request.since);
    const line = byId("pane-state");
    const text = !live ? `${state.text} when last seen; the page no longer keeps it`
      : shown === "unknown" ? `unknown: in flight when its session ended (${over(session)})`
      : shown === "stuck" ? `stuck: ${request.cancel?.worksOn ? "still being worked on" : request.settled ? "not known to have stopped" : "still unanswered"} ${age(clock - (request.cancel?.asked ?? request.since))} after its cancel`
      : shown === "released" ? `released: not known to have stopped ${age(clock - (request.cancel?.asked ?? request.since))} after its cancel`
      : request.waitsForTurn ? `${state.text} for ${took}: waits for the turn before`
      : open ? `${state.text} for ${took}` : `${state.text} after ${took}`;
    fill(line, `${state.glyph}${text}${state.tone}`, () => [element("span", state.glyph, "glyph"), document.createTextNode(text)]);
    line.className = `pane-state is-${state.tone}`;

    const typing = this.form.contains(document.activeElement);
    const again = request.mayBeReleased === true;
    this.form.hidden = !live || (Boolean(request.cancel) && !again) || !open || session.isOver;
    setText(this.submit, again ? "Answer its client now" : "Cancel request");
    byId("reason-label").hidden = again;
    this.reason.hidden = again;
    // A hidden element would lose the focus.
    if (typing && this.form.hidden) byId("pane-title").focus();
    this.#receipt(request, session);
    this.#facts(request, session, clock);
    this.#kin(request, session);
    this.#progress(request, session, clock);
    this.arguments.changed(request);
    this.messages.changed(request, session, this.store.isRecorded);
  }

  /** @param {PageRequest} request @param {Session} session */
  #receipt(request, session) {
    const { cancel } = request;
    byId("receipt").hidden = !cancel;
    if (!cancel) return;
    const outcome = outcomeWords(cancel, request.state);
    const words = byId("receipt-words");
    fill(words, outcome.glyph + cancel.words, () => [element("span", outcome.glyph, "glyph"), document.createTextNode(plain(cancel.words))]);
    words.className = `words is-${outcome.tone}`;
    const time = (/** @type {number} */ at) => `${dated(session.moment(at), this.store.at(), 3)}, ${duration(at - request.since)} after its arrival`;
    facts(byId("receipt-facts"), [
      ["Cancelled by", cause(request, cancel)],
      ["Reason", cancel.reason && plain(cancel.reason, 1024)],
      ["Cancelled at", time(cancel.asked)],
      ["Written", cancel.written === undefined ? "not yet" : `${duration(cancel.written - cancel.asked)} later`],
      ["Answer", cancel.after === undefined ? (cancel.confirms ? "none so far" : `none: ${plain(cancel.protocol, 40)} does not answer cancelled requests`)
        : `${cancel.answer === "error" ? "an error" : "a result"}, ${duration(cancel.after)} after the cancel`],
      ["Work", cancel.worksOn ? "continues" : cancel.waitedFor ? "over: it waited for its task" : request.settled && request.state !== "stuck" && !cancel.confirms && cancel.after === undefined ? "unknown whether it stopped" : ""],
    ]);
    const steps = session.trails.get(request.key)?.cancel ?? [];
    const trail = byId("receipt-trail");
    trail.hidden = steps.length < 2;
    steplist(trail, steps, session);
  }

  /** @param {PageRequest} request @param {Session} session @param {number} clock */
  #facts(request, session, clock) {
    const { settled, late, deadline } = request;
    const requester = session.facts[request.from];
    const now = this.store.at();
    const when = (/** @type {number} */ at) => dated(session.moment(at), now, 3);
    const entry = [client(session) && `of ${client(session)}`, session.facts.folder && `in ${plain(session.facts.folder, 200)}`];
    const by = stopper(request);
    const how = by === null ? (HOW[settled?.how ?? ""] ?? "ended") : `stopped by ${by || "an operator"}: its client was told so`;
    const left = deadline === undefined ? 0 : deadline - clock;
    facts(byId("facts"), [
      ["Session", [command(session), ...entry, `(number ${plain(session.facts.name, 40)})`].filter(Boolean).join(" ")],
      ["Sent by", `${request.from}, ${party(requester)}`],
      ["Protocol", plain(requester.protocol, 60)],
      ["State", request.child && isOpen(request) && `${plain(request.child.state, 40)}, as its agent said ${age(clock - request.child.reported)} ago`],
      ["Status", request.atWork && isOpen(request) && `${plain(request.atWork.status.replaceAll("_", " "), 40)}, as its server said ${age(clock - request.atWork.reported)} ago`],
      ["Id", `${plain(request.id, 200)}${request.upstream ? `; on the other side ${plain(request.upstream, 200)}` : ""}`],
      [request.child || request.atWork ? "Since" : "Arrived", when(request.since)],
      ["Ended", settled && `${when(settled.at)}, ${how}${settled.code === undefined ? "" : ` (${settled.code})`}`],
      ["Took", settled && duration(settled.at - request.since)],
      ["Deadline", deadline === undefined ? "" : settled ? when(deadline) : left > 0 ? `in ${age(left)}, ${when(deadline)}` : `passed, ${when(deadline)}`],
      ["Task", request.task && plain(request.task, 200)],
      ["Late", late && `${several(late.answers, "answer")} and ${several(late.notices, "notification")} came after its end and were dropped; the last ${duration(late.at - (settled?.at ?? request.since))} after it`],
      ["Its session", session.isOver && `${over(session)}${session.hasEnded ? `, ${session.end === "unknown" ? "last seen " : ""}${when(session.stopped)}` : ""}`],
    ]);
  }

  /** @param {PageRequest} request @param {Session} session */
  #kin(request, session) {
    const above = request.parent ? session.request(request.parent) : undefined;
    const below = [...session.requests()].filter((other) => other.parent === request.key).slice(0, 20);
    const during = isPart(request) ? "Part of" : "Sent during";
    const link = (/** @type {string} */ words, /** @type {PageRequest} */ other) => {
      const button = element("button", `${words} ${label(other)} ${plain(other.name || other.method, 80)}`, "quiet");
      button.type = "button";
      button.dataset.key = other.key;
      return button;
    };
    fill(byId("kin"), [request.parent, ...below.map((other) => other.key)].join("\n"), () => [
      ...(above ? [link(during, above)] : request.parent ? [element("span", `${during} a request that the page no longer keeps`, "dim")] : []),
      ...below.map((other) => link(isPart(other) ? "Its part" : "Caused", other)),
    ]);
  }

  /** @param {PageRequest} request @param {Session} session @param {number} clock */
  #progress(request, session, clock) {
    const { progress } = request;
    byId("progress").hidden = !progress;
    if (!progress) return;
    const total = typeof progress.total === "number" ? ` (${progress.progress} of ${progress.total})` : "";
    const ago = request.state === "ended" ? "" : `, the last ${age(clock - progress.at)} ago`;
    const done = `${far(progress)}${total}`;
    const isCount = progress.progress === undefined && !progress.message;
    const times = isCount || (progress.count === 1 && !total && done) ? "" : several(progress.count, "message");
    setText(byId("progress-now"), `${[done, times].filter(Boolean).join(", ")}${ago}`);
    const steps = session.trails.get(request.key)?.progress ?? [];
    steplist(byId("progress-trail"), steps, session);
  }

  /** @param {string} text */
  #setNote(text, bad = false) {
    this.note.textContent = text;
    this.note.hidden = !text;
    this.note.classList.toggle("is-bad", bad);
  }

  /** Sends the cancel order. The feed reports the outcome; only failures are reported here. */
  async #send() {
    if (this.#sending || !this.subject) return;
    const { session, key } = this.subject;
    const reason = this.reason.value.trim();
    this.#sending = true;
    this.submit.disabled = true;
    this.#setNote("Sending…");
    const [text, bad] = await order(/** @type {PageRequest} */ (this.last).of, key, reason);
    this.#sending = false;
    this.submit.disabled = false;
    if (this.subject?.session !== session || this.subject?.key !== key) return;
    if (this.form.contains(document.activeElement)) byId("pane-title").focus();
    this.#setNote(text, bad);
    this.render();
  }
}

/**
 * Sends a cancel order. Returns the note to show, and whether the order failed.
 * @param {Session} session @param {string} key @param {string} reason @returns {Promise<[string, boolean]>}
 */
async function order(session, key, reason) {
  const { reply, error } = await cancel(session, [key], reason);
  if (error !== null) return [`Not cancelled: ${error}`, true];
  const done = reply?.requests?.[0];
  if (done?.accepted) return ["", false];
  const known = done?.request;
  if (!known) return ["Not cancelled: the session no longer remembers this request.", true];
  if (known?.mayBeReleased) return ["Its client had cancelled it, and waits for the agent. Press again to answer the client now.", false];
  if (known.cancel && known.state !== "ended") return [`Already cancelled: ${plain(known.cancel.words)}.`, true];
  return [`Not cancelled: the request is no longer in flight (${stateWords({ ...known, of: { isOver: false, facts: session.facts } }).text}).`, true];
}

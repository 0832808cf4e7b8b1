// @ts-check
// The messages of a request. They may hold secrets, so they are fetched only on demand.

import { member } from "./json.js";
import { details } from "./orders.js";
import { block } from "./text.js";
import { byId, count, duration, moment, plain, setText } from "./words.js";

/** @typedef {import("./store.js").Session} Session */

/** Milliseconds between two fetches of the messages while they are shown. */
const AGAIN = 1000;

export class Messages {
  #subject = /** @type {{ session: string, key: string } | null} */ (null);
  #shown = false;
  #seen = /** @type {PageRequest | null} */ (null);
  #timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  /** How many messages are shown. */
  #count = -1;
  session = /** @type {Session | null} */ (null);

  constructor() {
    this.ask = byId("messages-ask");
    this.note = byId("messages-note");
    this.list = byId("messages");
    byId("messages-show").addEventListener("click", () => {
      this.#shown = true;
      this.#read();
    });
  }

  /** Turns to another request, and hides its messages. @param {{ session: string, key: string } | null} subject */
  about(subject) {
    this.#subject = subject;
    this.#shown = false;
    this.#seen = null;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#count = -1;
    this.ask.hidden = false;
    this.note.hidden = true;
    this.list.replaceChildren();
  }

  /**
   * Fetches shown messages again after a change, at most once a second. Those of a session that has ended went with it.
   * @param {PageRequest} request @param {Session} session @param {boolean} isRecorded
   */
  changed(request, session, isRecorded) {
    this.session = session;
    if (!this.#shown) this.#seen = request;
    if (session.hasEnded && !isRecorded) {
      if (this.#shown) return;
      this.ask.hidden = true;
      return this.#setNote(session.isPast ? "The history keeps no messages and no arguments. What it has of this request stands above." : "Messages went with its session. What was learnt of the request stands above.");
    }
    if (this.#seen === request || this.#timer !== undefined) return;
    this.#seen = request;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#read();
    }, AGAIN);
  }

  async #read() {
    const subject = this.#subject;
    if (!subject) return;
    const { known, problem } = await details(subject);
    if (this.#subject !== subject) return;
    if (known) this.#show(known);
    else this.#setNote(problem);
  }

  /** @param {string} text */
  #setNote(text) {
    setText(this.note, text);
    this.note.hidden = !text;
  }

  /** @param {FeedDetails} details */
  #show({ request, frames, keptSince }) {
    const when = (/** @type {number} */ at) => moment(this.session?.moment(at) ?? at, 3);
    // The button is gone, and the focus must be somewhere.
    if (this.ask.contains(document.activeElement)) queueMicrotask(() => /** @type {HTMLElement} */ (this.list.querySelector("summary") ?? byId("pane-title")).focus());
    this.ask.hidden = true;
    if (!frames.length) {
      this.#setNote(
        keptSince === null || keptSince === undefined
          ? "No messages were kept: no page was open when they passed."
          : keptSince > request.since
            ? `Its messages were not kept: they passed before a page was open (since ${when(keptSince)}), or later messages replaced them.`
            : "Its messages are not kept any more: later ones replaced them.",
      );
      this.list.replaceChildren();
      return;
    }
    this.#setNote((keptSince ?? 0) > request.since ? `Earlier messages are not kept: no page was open before ${when(keptSince ?? 0)}, or later messages replaced them.` : "");
    const open = [...this.list.querySelectorAll("details")].map((node) => node.open);
    const parts = [];
    const asked = frames.find((frame) => frame.from === request.from && member(frame.text, "method") !== null);
    const answered = frames.findLast((frame) => frame.from !== request.from && member(frame.text, "method") === null);
    const params = asked && member(asked.text, "params");
    if (params) parts.push(block("Params", params, true));
    const result = answered && member(answered.text, "result");
    const error = answered && member(answered.text, "error");
    if (result) parts.push(block("Result", result, true));
    if (error) parts.push(block("Error", error, true));
    for (const frame of frames) parts.push(block(this.#title(frame, request, when), frame.text, false, frame.length));
    const same = this.#count === frames.length && parts.length === this.list.children.length;
    this.#count = frames.length;
    // Messages never change, so nodes that are being read or selected stay.
    if (same) return;
    parts.forEach((part, index) => (part.open = open[index] ?? part.open));
    const stops = () => /** @type {HTMLElement[]} */ ([...this.list.querySelectorAll("summary, button, pre")]);
    const focused = stops().indexOf(/** @type {HTMLElement} */ (document.activeElement));
    this.list.replaceChildren(...parts);
    if (focused >= 0) stops()[focused]?.focus();
  }

  /** @param {FeedFrame} frame @param {FeedRequest} request @param {(at: number) => string} when */
  #title(frame, request, when) {
    const method = member(frame.text, "method");
    const what = method ? plain(method.replaceAll('"', ""), 80) : member(frame.text, "error") ? "error" : member(frame.text, "result") ? "result" : "message";
    const [client, server] = frame.byShim ? ["shim →", "← shim"] : ["client →", "← server"];
    const arrow = frame.from === "client" ? client : server;
    return `${when(frame.at)}  ${arrow}  ${what}  ${count(frame.length)} bytes, ${duration(frame.at - request.since)} after its arrival`;
  }
}

// @ts-check
// Ends the server of a session, whatever is in flight in it, after a question.

import { post } from "./orders.js";
import { byId, hasUnseen, named, over, setText, several } from "./words.js";

/** @typedef {import("./store.js").Session} Session */

export class End {
  /** The session; null while nothing is asked. */
  #session = /** @type {string | null} */ (null);
  /** What became of the order; null before it is given. */
  #outcome = /** @type {string | null} */ (null);

  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.store = store;
    this.dialog = /** @type {HTMLDialogElement} */ (byId("end"));
    this.send = /** @type {HTMLButtonElement} */ (byId("end-send"));
    byId("end-close").addEventListener("click", () => this.dialog.close());
    this.send.addEventListener("click", () => this.#order());
    this.dialog.addEventListener("close", () => {
      this.#session = null;
    });
  }

  /** Asks. @param {Session} session */
  open(session) {
    if (this.dialog.open) return;
    [this.#session, this.#outcome] = [session.name, null];
    this.dialog.showModal();
    this.render();
    byId("end-close").focus();
  }

  render() {
    const session = this.#session === null ? undefined : this.store.sessions.get(this.#session);
    if (!session) return;
    const isAsking = this.#outcome === null && !session.isOver;
    const name = named(session);
    setText(byId("end-title"), isAsking ? `End the server of ${name}?` : `The server of ${name}`);
    const { inFlight } = session;
    const released = session.released.size ? `, ${several(session.released.size, "request")} not known to have stopped` : "";
    const clients = (session.facts.connected?.sessions ?? 0) > 1 ? ` ${several(session.facts.connected?.sessions ?? 0, "client")} share it.` : "";
    const unseen = hasUnseen(session.facts) ? " What else it works on cannot be seen." : "";
    const inside = `${inFlight ? several(inFlight, "request") : "Nothing"} in flight${released}.${unseen} All its work ends with it.${clients}`;
    const hasEnded = session.hasEnded ? over(session) : null;
    setText(byId("end-note"), isAsking ? inside : hasEnded ?? this.#outcome ?? over(session) ?? "");
    this.send.hidden = !isAsking;
    setText(byId("end-close"), isAsking ? "Do not end" : "Close");
  }

  async #order() {
    const session = this.#session === null ? undefined : this.store.sessions.get(this.#session);
    if (!session) return;
    const { name } = session;
    this.#outcome = "Ending…";
    this.render();
    byId("end-close").focus();
    const { error } = await post(name, "end", { started: session.facts.started });
    if (error !== null && this.#session === name) this.#outcome = `Not ended: ${error}`;
    this.render();
  }
}

// @ts-check
// What a request in flight asks for. It may hold secrets, so it is fetched only on demand.

import { member } from "./json.js";
import { details } from "./orders.js";
import { block } from "./text.js";
import { byId, isOpen } from "./words.js";

export class Arguments {
  #subject = /** @type {{ session: string, key: string } | null} */ (null);
  #answered = false;

  constructor() {
    this.section = byId("arguments");
    this.ask = byId("arguments-ask");
    this.note = byId("arguments-note");
    this.text = byId("arguments-text");
    byId("arguments-show").addEventListener("click", () => this.#read());
  }

  /** Turns to another request, and hides its arguments. @param {{ session: string, key: string } | null} subject */
  about(subject) {
    this.#subject = subject;
    this.#answered = false;
    this.ask.hidden = false;
    this.note.hidden = true;
    this.text.replaceChildren();
  }

  /** They are kept while the request is in flight; what was shown stays. @param {PageRequest} request */
  changed(request) {
    this.section.hidden = !this.#answered && (!isOpen(request) || request.of.isOver);
  }

  async #read() {
    const subject = this.#subject;
    if (!subject) return;
    const { known, problem } = await details(subject);
    if (this.#subject !== subject) return;
    if (known) this.#show(known.arguments);
    else this.#setNote(problem);
  }

  /** @param {string} text */
  #setNote(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  /** @param {FeedArguments | undefined} kept */
  #show(kept) {
    this.#answered = true;
    this.ask.hidden = true;
    if (!kept) return this.#setNote("No arguments are kept of it: it has ended, or its rescind is older than this one.");
    if (kept.leftOut) return this.#setNote("Not kept: its session had no room for more arguments when it came.");
    if (!kept.text) return this.#setNote("It has no arguments.");
    this.#setNote("");
    const own = member(kept.text, "arguments");
    this.text.replaceChildren(block(own ? "Arguments" : "Params", own ?? kept.text, true, own ? 0 : kept.length));
    // The button is gone, and the focus must be somewhere.
    this.text.querySelector("summary")?.focus();
  }
}

// @ts-check
// Which requests are shown: chips for state, side and session, and words to search for.

import { byId, label, named, shownState } from "./words.js";

const STATES = ["queued", "running", "cancelling", "stuck", "answering", "released", "ended", "unknown"];
/** The most characters of a request's text that are searched. */
const SEARCHED = 2000;

/** The selection. An empty set selects everything. */
export class Filter {
  /** @type {Set<string>} */
  state = new Set();
  /** @type {Set<string>} */
  side = new Set();
  /** @type {Set<string>} */
  session = new Set();
  cancelled = false;
  /** @type {string[]} */
  words = [];

  get isEmpty() {
    return !this.state.size && !this.side.size && !this.session.size && !this.cancelled && !this.words.length;
  }

  /** @param {PageRequest} request */
  has(request) {
    return (
      (!this.session.size || this.session.has(request.of.name)) &&
      (!this.side.size || this.side.has(request.from)) &&
      (!this.state.size || this.state.has(shownState(request))) &&
      (!this.cancelled || Boolean(request.cancel)) &&
      (!this.words.length || this.words.every((word) => searched(request).includes(word)))
    );
  }
}

/** A request's text in lower case, made once for each record. @param {PageRequest} request */
function searched(request) {
  request.searched ??= [
    request.method, request.name, `${request.of.name}/${label(request)}`, request.cancel?.reason,
    request.cancel?.words, request.progress?.message, named(request.of),
  ].map((text) => (text ?? "").slice(0, SEARCHED)).join("\n").toLowerCase();
  return request.searched;
}

/**
 * Connects a filter to its controls, and calls `changed` when it changes.
 * @param {Filter} filter @param {import("./store.js").Store} store @param {() => void} changed
 */
export function controls(filter, store, changed) {
  const [search, clear] = [/** @type {HTMLInputElement} */ (byId("search")), byId("clear")];
  const done = () => {
    clear.hidden = filter.isEmpty;
    changed();
  };

  const chip = (/** @type {string} */ text, /** @type {Set<string>} */ set, /** @type {string} */ value) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.textContent = text;
    button.dataset.value = value;
    button.setAttribute("aria-pressed", String(set.has(value)));
    button.addEventListener("click", () => {
      if (!set.delete(value)) set.add(value);
      button.setAttribute("aria-pressed", String(set.has(value)));
      done();
    });
    return button;
  };

  const cancelled = chip("has a cancel", new Set(), "cancelled");
  cancelled.addEventListener("click", () => {
    filter.cancelled = !filter.cancelled;
    done();
  });
  byId("chips-state").append(...STATES.map((state) => chip(state, filter.state, state)), cancelled);
  byId("chips-side").append(chip("by client", filter.side, "client"), chip("by server", filter.side, "server"));

  search.addEventListener("input", () => {
    filter.words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    done();
  });
  clear.addEventListener("click", () => {
    for (const set of [filter.state, filter.side, filter.session]) set.clear();
    filter.cancelled = false;
    filter.words = [];
    search.value = "";
    for (const button of document.querySelectorAll(".chip")) button.setAttribute("aria-pressed", "false");
    done();
    search.focus();
  });

  /** Updates the chips of the sessions. */
  return function sessions() {
    const group = byId("chips-session");
    const names = store.shown().map((session) => session.name);
    const wanted = names.length > 1 ? names : [];
    const chips = () => /** @type {HTMLElement[]} */ ([...group.children]);
    const there = chips().map((button) => button.dataset.value);
    if (wanted.join() === there.join()) return;
    for (const button of chips()) if (!wanted.includes(button.dataset.value ?? "")) button.remove();
    for (const session of store.shown()) {
      if (!wanted.includes(session.name)) continue;
      const known = chips().find((button) => button.dataset.value === session.name);
      group.append(known ?? chip(named(session), filter.session, session.name));
    }
    let lost = false;
    for (const name of filter.session) if (!names.includes(name)) lost = filter.session.delete(name) || lost;
    if (lost) done();
  };
}

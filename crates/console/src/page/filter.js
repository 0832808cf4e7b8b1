// @ts-check
// Which requests are shown: chips for state, side and session, and words to search for.

import { byId, client, command, count, label, named, plain, setText, shownState } from "./words.js";

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
 * Makes a group of buttons one stop of the Tab key, in which the arrows move.
 * @param {HTMLElement} group
 */
function roving(group) {
  const chips = () => /** @type {HTMLElement[]} */ ([...group.children]);
  const stop = (/** @type {Element | null} */ chosen) => {
    for (const chip of chips()) chip.tabIndex = chip === chosen ? 0 : -1;
  };
  group.addEventListener("focusin", (event) => stop(/** @type {HTMLElement} */ (event.target).closest("button")));
  group.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const all = chips();
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 };
    const to = steps[event.key];
    if (to === undefined) return;
    event.preventDefault();
    all[(to + all.length) % all.length]?.focus();
  });
  /** One of them is always a stop. */
  return () => {
    if (!chips().some((chip) => chip.tabIndex === 0)) stop(group.firstElementChild);
  };
}

/**
 * Connects a filter to its controls, and calls `changed` when it changes. What it returns updates them, with how many
 * requests there are in each state.
 * @param {Filter} filter @param {import("./store.js").Store} store @param {() => void} changed
 */
export function controls(filter, store, changed) {
  const [search, clear] = [/** @type {HTMLInputElement} */ (byId("search")), byId("clear")];
  const toggle = byId("filters-toggle");
  const done = () => {
    clear.hidden = filter.isEmpty;
    const chosen = filter.state.size + filter.side.size + filter.session.size + (filter.cancelled ? 1 : 0);
    setText(toggle, chosen ? `Filters (${chosen})` : "Filters");
    changed();
  };

  const chip = (/** @type {string} */ text, /** @type {Set<string>} */ set, /** @type {string} */ value) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.textContent = text;
    button.tabIndex = -1;
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
  const stops = ["chips-state", "chips-side", "chips-session"].map((id) => roving(byId(id)));
  const many = new Map(STATES.map((state, index) => {
    const node = document.createElement("span");
    node.className = "many";
    byId("chips-state").children[index].append(" ", node);
    return [state, node];
  }));
  toggle.addEventListener("click", () => {
    const open = toggle.getAttribute("aria-expanded") !== "true";
    toggle.setAttribute("aria-expanded", String(open));
    byId("filters").classList.toggle("is-open", open);
  });

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

  return (/** @type {Map<string, number>} */ states) => {
    for (const [state, node] of many) {
      const number = states.get(state) ?? 0;
      setText(node, number ? count(number) : "");
    }
    sessions();
    for (const stop of stops) stop();
  };

  /** Updates the chips of the sessions: one that comes later stands behind the others. */
  function sessions() {
    const group = byId("chips-session");
    const names = store.shown().map((session) => session.name);
    const wanted = names.length > 1 ? names : [];
    const chips = () => /** @type {HTMLElement[]} */ ([...group.children]);
    const there = chips().map((button) => button.dataset.value);
    if (wanted.join() === there.join()) return;
    for (const button of chips()) if (!wanted.includes(button.dataset.value ?? "")) button.remove();
    for (const session of store.shown()) {
      if (!wanted.includes(session.name)) continue;
      if (chips().some((button) => button.dataset.value === session.name)) continue;
      const button = chip([command(session), client(session)].filter(Boolean).join(" "), filter.session, session.name);
      const number = document.createElement("span");
      number.className = "many";
      number.textContent = plain(session.name, 40);
      button.append(" ", number);
      button.title = named(session);
      const behind = wanted.slice(wanted.indexOf(session.name) + 1);
      group.insertBefore(button, chips().find((other) => behind.includes(other.dataset.value ?? "")) ?? null);
    }
    let lost = false;
    for (const name of filter.session) if (!names.includes(name)) lost = filter.session.delete(name) || lost;
    if (lost) done();
  }
}

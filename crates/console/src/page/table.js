// @ts-check
// The table of requests: the most important few hundred. A row is kept while its request is shown.

import { age, byId, client, command, count, duration, far, isOpen, isPart, label, named, outcomeWords, part, plain, party, setMethod, setText, shownState, stateWords, stopper } from "./words.js";

/** The initial number of rows, which "Show more" doubles, and the most. */
const ROWS = 100;
const ROWS_MOST = 1000;
/** How far the rows of parts are indented at most. */
const DEEPEST = 8;

const STATE_ORDER = ["stuck", "cancelling", "released", "unknown", "answering", "running", "queued", "ended"];
/** Its place in that order; a word of a later shim stands where unknown does. @param {PageRequest} request */
const stateOrder = (request) => STATE_ORDER.indexOf(STATE_ORDER.includes(shownState(request)) ? shownState(request) : "unknown");
const byText = new Intl.Collator("en", { numeric: true });

/** Whether it is neither in flight nor released. @param {PageRequest} request */
const isOver = (request) => !isOpen(request) && request.state !== "released";

/** Since when a request is in its state: a released one since its cancel. @param {PageRequest} request */
const begun = (request) => (request.state === "released" && request.cancel ? request.cancel.asked : request.since);
const long = (/** @type {PageRequest} */ request, /** @type {number} */ at) => (isOver(request) && request.settled ? request.settled.at : request.of.clock(at)) - begun(request);
/** @type {Record<string, (a: PageRequest, b: PageRequest, at: number) => number>} */
const KEYS = {
  session: (a, b) => byText.compare(command(a.of), command(b.of)) || byText.compare(a.of.name, b.of.name),
  id: (a, b) => byText.compare(label(a), label(b)),
  from: (a, b) => byText.compare(a.from, b.from),
  method: (a, b) => byText.compare(a.method, b.method) || byText.compare(a.name ?? "", b.name ?? ""),
  state: (a, b) => stateOrder(a) - stateOrder(b),
  age: (a, b, at) => long(b, at) - long(a, at),
  progress: (a, b) => (part(b.progress) ?? -1) - (part(a.progress) ?? -1),
  deadline: (a, b) => (a.deadline ?? Infinity) - a.of.offset - ((b.deadline ?? Infinity) - b.of.offset) || 0,
  cancel: (a, b) => (b.cancel ? b.cancel.asked - b.of.offset : 0) - (a.cancel ? a.cancel.asked - a.of.offset : 0),
};

/** Stuck requests first, then those in flight and then those released, the oldest first, then those that ended last. @param {PageRequest} a @param {PageRequest} b */
function urgent(a, b) {
  const rank = (/** @type {PageRequest} */ request) => (isOver(request) ? 4 : request.of.isOver ? 3 : request.state === "released" ? 2 : request.state === "stuck" ? 0 : 1);
  const [first, second] = [rank(a), rank(b)];
  if (first !== second) return first - second;
  if (first === 4) return b.of.moment(b.settled?.at ?? b.since) - a.of.moment(a.settled?.at ?? a.since);
  return a.of.moment(a.since) - b.of.moment(b.since);
}

/**
 * In flight, each part of a request's work below that and its other parts, as `rescind ps` has it; with how deep it stands.
 * @param {PageRequest[]} requests @returns {[PageRequest, number][]}
 */
function inTree(requests) {
  const open = new Map(requests.filter(isOpen).map((request) => [request.uid, request]));
  const above = (/** @type {PageRequest} */ request) => (open.has(request.uid) && isPart(request) ? open.get(`${request.of.name}/${request.parent}`) : undefined);
  /** @type {Map<PageRequest, PageRequest[]>} */
  const below = new Map();
  for (const request of requests) {
    const parent = above(request);
    if (parent && parent !== request) below.set(parent, [...(below.get(parent) ?? []), request]);
  }
  if (!below.size) return requests.map((request) => [request, 0]);
  /** @type {[PageRequest, number][]} */
  const ordered = [];
  const rest = new Set(requests);
  const add = (/** @type {PageRequest} */ request, /** @type {number} */ depth) => {
    if (!rest.delete(request)) return;
    ordered.push([request, depth]);
    for (const part of below.get(request) ?? []) add(part, depth + 1);
  };
  const parts = new Set([...below.values()].flat());
  for (const request of requests) if (!parts.has(request)) add(request, 0);
  // A shim that names a circle of parents is wrong, and what it lists is shown all the same.
  for (const request of [...rest]) add(request, 0);
  return ordered;
}

export class Table {
  /** The request that keys act on. */
  current = /** @type {string | null} */ (null);
  shown = /** @type {PageRequest[]} */ ([]);
  #rows = /** @type {Map<string, Row>} */ (new Map());
  #spare = /** @type {Row[]} */ ([]);
  #most = ROWS;
  #sort = /** @type {string | null} */ (null);
  #down = false;
  /** How many requests there are in each state, whatever the filter. */
  states = /** @type {Map<string, number>} */ (new Map());

  /**
   * @param {import("./store.js").Store} store @param {import("./filter.js").Filter} filter
   * @param {Record<"open" | "cancel", (uid: string) => void>} actions
   */
  constructor(store, filter, { open, cancel }) {
    this.store = store;
    this.filter = filter;
    this.section = byId("requests");
    this.body = byId("rows");
    this.none = byId("none");
    this.more = byId("more");
    this.showMore = byId("show-more");
    this.template = /** @type {HTMLTemplateElement} */ (byId("row-template"));
    this.heads = /** @type {HTMLElement[]} */ ([...byId("table").querySelectorAll("th button")]);
    for (const head of this.heads) head.addEventListener("click", () => this.#turn(head.dataset.sort ?? null));
    this.sorts = /** @type {HTMLSelectElement} */ (byId("sort"));
    this.sorts.append(new Option("what is urgent", ""), ...this.heads.map((head) => new Option(head.textContent?.toLowerCase(), head.dataset.sort)));
    this.sorts.addEventListener("change", () => this.#sortBy(this.sorts.value || null, false));
    this.showMore.addEventListener("click", () => {
      this.#most = Math.min(ROWS_MOST, this.#most * 2);
      this.render();
    });
    this.body.addEventListener("click", (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      const uid = target.closest("tr")?.dataset.uid;
      if (!uid || String(getSelection())) return;
      this.current = uid;
      if (target.closest("button")) cancel(uid);
      else open(uid);
    });
    this.body.addEventListener("focusin", (event) => {
      const row = /** @type {HTMLElement} */ (event.target).closest("tr");
      if (row?.dataset.uid) this.#mark(row.dataset.uid);
    });
  }

  /** Sorts by a column, then in reverse, then in the initial order. @param {string | null} key */
  #turn(key) {
    if (this.#sort !== key) this.#sortBy(key, false);
    else if (!this.#down) this.#sortBy(key, true);
    else this.#sortBy(null, false);
  }

  /** @param {string | null} key @param {boolean} down */
  #sortBy(key, down) {
    [this.#sort, this.#down] = [key, down];
    this.sorts.value = key ?? "";
    for (const head of this.heads) {
      const on = head.dataset.sort === this.#sort;
      const cell = head.closest("th");
      if (on) cell?.setAttribute("aria-sort", this.#down ? "descending" : "ascending");
      else cell?.removeAttribute("aria-sort");
    }
    this.render();
  }

  /** The first requests of the selection, and how many it has in all, without sorting all. */
  #first() {
    const at = this.store.at();
    const by = this.#sort ? KEYS[this.#sort] : urgent;
    const sign = this.#down ? -1 : 1;
    const compare = (/** @type {PageRequest} */ a, /** @type {PageRequest} */ b) => sign * by(a, b, at) || urgent(a, b);
    /** @type {PageRequest[]} */
    const first = [];
    let all = 0;
    this.states.clear();
    for (const session of this.store.shown()) {
      for (const request of session.requests()) {
        const state = shownState(request);
        this.states.set(state, (this.states.get(state) ?? 0) + 1);
        if (!this.filter.has(request)) continue;
        all += 1;
        if (first.length === this.#most && compare(request, first[first.length - 1]) >= 0) continue;
        let [low, high] = [0, first.length];
        while (low < high) {
          const middle = (low + high) >> 1;
          if (compare(request, first[middle]) < 0) high = middle;
          else low = middle + 1;
        }
        first.splice(low, 0, request);
        if (first.length > this.#most) first.pop();
      }
    }
    return { first, all };
  }

  render() {
    const { first, all } = this.#first();
    const lines = this.#sort ? first.map((request) => /** @type {[PageRequest, number]} */ ([request, 0])) : inTree(first);
    this.shown = lines.map(([request]) => request);
    this.section.hidden = this.store.shown().length === 0;
    this.none.hidden = first.length > 0;
    setText(this.none, this.filter.isEmpty ? "Nothing has been asked yet." : "No request matches the filters.");
    const rest = all - first.length;
    setText(this.more, rest ? `${count(rest)} more are not listed.` : "");
    this.showMore.hidden = !rest || this.#most >= ROWS_MOST;

    const there = new Set(first.map((request) => request.uid));
    for (const [uid, row] of this.#rows) {
      if (there.has(uid) || row.contains(document.activeElement)) continue;
      this.#rows.delete(uid);
      row.remove();
      if (this.#spare.length < ROWS) this.#spare.push(row);
    }
    if (!this.current || !there.has(this.current)) this.current = this.shown[0]?.uid ?? null;
    const focused = /** @type {Row | null | undefined} */ (document.activeElement?.closest?.("#rows tr"));
    let place = /** @type {ChildNode | null} */ (this.body.firstChild);
    for (const [request, depth] of lines) {
      let row = this.#rows.get(request.uid);
      if (!row) {
        row = this.#spare.pop() ?? this.#make();
        this.#rows.set(request.uid, row);
        row.dataset.uid = request.uid;
      }
      // Moving the focused row would lose the focus, so the others are moved around it.
      while (row === focused && place && place !== row) {
        const next = place.nextSibling;
        place.remove();
        place = next;
      }
      if (place === row) place = row.nextSibling;
      else this.body.insertBefore(row, place);
      this.#fill(row, request);
      if (row.depth === depth) continue;
      row.depth = depth;
      row.classList.toggle("is-part", depth > 0);
      row.style.setProperty("--depth", String(Math.min(depth, DEEPEST)));
    }
    // The rest is not listed any more, except perhaps the focused row.
    while (place) {
      const next = place.nextSibling;
      if (place !== focused) place.remove();
      place = next;
    }
    const uid = focused?.dataset.uid;
    if (focused && uid !== undefined && !there.has(uid)) {
      this.#rows.delete(uid);
      focused.remove();
      this.focus();
    }
  }

  #make() {
    const row = /** @type {Row} */ (this.template.content.firstElementChild?.cloneNode(true));
    const one = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (row.querySelector(selector));
    const all = (/** @type {string} */ selector) => /** @type {HTMLElement[]} */ ([...one(selector).children]);
    row.cells_ = {
      session: [one(".c-session .name"), one(".c-session .client"), one(".c-session .number")], id: one(".c-id"), from: one(".c-from"), method: all(".c-method"), state: all(".c-state"),
      age: one(".c-age"), progress: all(".c-progress"), deadline: one(".c-deadline"), cancel: all(".c-cancel"),
    };
    row.meter = one(".meter i");
    return row;
  }

  /** @param {Row} row @param {PageRequest} request */
  #fill(row, request) {
    const at = this.store.at();
    const clock = request.of.clock(at);
    const { cells_: cells } = row;
    const tab = request.uid === this.current ? 0 : -1;
    if (row.tabIndex !== tab) row.tabIndex = tab;
    setText(cells.age, isOver(request) ? duration((request.settled?.at ?? clock) - request.since) : age(clock - begun(request)));
    const left = request.deadline === undefined || request.settled ? null : request.deadline - clock;
    setText(cells.deadline, left === null ? "" : left > 0 ? `in ${age(left)}` : "passed");
    const { waitsForTurn, atWork } = request;
    const seen = atWork && isOpen(request) ? `as seen ${age(clock - atWork.reported)} ago` : "";
    setText(cells.progress[1], waitsForTurn ? "" : request.progress ? far(request.progress) : seen);
    const by = stopper(request);
    if (row.request === request && row.over === request.of.isOver && row.stopper === by) return;
    row.request = request;
    row.over = request.of.isOver;
    row.stopper = by;

    const { facts } = request.of;
    setText(cells.session[0], command(request.of));
    setText(cells.session[1], client(request.of) || (facts.client.name ? party(facts.client) : ""));
    setText(cells.session[2], plain(request.of.name, 40));
    cells.session[0].parentElement?.setAttribute("title", `${named(request.of)}: ${party(facts.client)} → ${party(facts.server)}`);
    setText(cells.id, label(request));
    setText(cells.from, request.from === "client" ? "client →" : "← server");
    setMethod(cells.method[0], plain(request.name || request.method, 80));
    setMethod(cells.method[1], request.name ? plain(request.method, 80) : "");
    const state = stateWords(request);
    setText(cells.state[0], state.glyph);
    setText(cells.state[1], state.text);
    const shown = shownState(request);
    row.dataset.state = shown;
    row.className = `is-${state.tone}${row.current ? " is-picked" : ""}${row.depth ? " is-part" : ""}`;

    row.setAttribute("aria-label", `${plain(request.name || request.method, 80)}, ${state.text}, ${named(request.of)}/${label(request)}`);

    const { progress, cancel } = request;
    const fraction = part(progress);
    cells.progress[0].hidden = fraction === null;
    if (fraction !== null) row.meter.style.width = `${(fraction * 100).toFixed(1)}%`;
    setText(cells.progress[2], waitsForTurn ? "waits for the turn before" : progress?.message ? plain(progress.message, 160) : "");
    cells.progress[2].title = cells.progress[2].textContent ?? "";

    const outcome = cancel && outcomeWords(cancel, request.state);
    setText(cells.cancel[0], outcome ? outcome.glyph : "");
    const isFixed = request.child && !request.child.canCancel && isOpen(request);
    setText(cells.cancel[1], cancel ? plain(cancel.words, 120) : isFixed ? "cannot be cancelled" : "");
    const tone = outcome ? ` is-${outcome.tone}` : isFixed ? " is-ended" : "";
    cells.cancel[0].className = `glyph${tone}`;
    cells.cancel[1].className = `words${tone}`;
    cells.cancel[2].hidden = Boolean(cancel) || Boolean(isFixed) || !isOpen(request) || shown === "unknown" || shown === "answering";
    cells.cancel[2].setAttribute("aria-label", `Cancel… ${plain(request.name || request.method, 60)} ${label(request)}`);
  }

  /** Marks the row whose details are open. @param {string | null} uid */
  pick(uid) {
    for (const [known, row] of this.#rows) {
      const on = known === uid;
      row.current = on;
      row.classList.toggle("is-picked", on);
      if (on) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  /** @param {string} uid */
  #mark(uid) {
    if (this.current === uid) return;
    const before = this.current === null ? undefined : this.#rows.get(this.current);
    if (before) before.tabIndex = -1;
    this.current = uid;
    const row = this.#rows.get(uid);
    if (row) row.tabIndex = 0;
  }

  /** Moves on by so many rows. @param {number} by */
  move(by) {
    const inside = document.activeElement?.closest?.("#rows tr");
    const index = this.shown.findIndex((request) => request.uid === this.current);
    const to = !inside && index >= 0 ? index : Math.min(this.shown.length - 1, Math.max(0, index + by));
    if (this.shown[to]) this.#mark(this.shown[to].uid);
    this.focus();
  }

  /** Goes to the first row, or to the last. @param {boolean} last */
  moveTo(last) {
    const request = last ? this.shown.at(-1) : this.shown[0];
    if (request) this.#mark(request.uid);
    this.focus();
  }

  focus() {
    const row = (this.current === null ? undefined : this.#rows.get(this.current)) ?? this.body.querySelector("tr");
    if (row) row.focus();
    else this.section.focus();
  }
}

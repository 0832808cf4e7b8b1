// @ts-check
// One bar of the timeline: a request from its arrival to its answer, and what came later.

import { ends } from "./lanes.js";
import { age, duration, far, label, outcomeWords, part, plain, several, shownState, stateWords } from "./words.js";

/** The height of a row in pixels, and how far a bar may reach out of sight. */
export const ROW = 22;
const BEYOND = 40;
/** The narrowest bar, and the narrowest that has a label. */
const LEAST = 4;
const LABELLED = 44;

/** Moves a part of a bar, or hides it (width null). Writes only changes. @param {Placed} node @param {number} left @param {number | null} width */
function put(node, left, width) {
  const hidden = width === null;
  if (node.isOut !== hidden) {
    node.isOut = hidden;
    node.hidden = hidden;
  }
  if (hidden) return;
  const [x, w] = [Math.round(left * 2) / 2, Math.round(width * 2) / 2];
  if (node.x !== x) node.style.transform = `translateX(${(node.x = x)}px)`;
  if (node.w !== w && w > 0) node.style.width = `${(node.w = w)}px`;
}

export class Bar {
  row = 0;
  up = 0;
  tone = "";
  request = /** @type {PageRequest | null} */ (null);
  shownRow = /** @type {number | null} */ (null);

  /** @param {HTMLTemplateElement} template */
  constructor(template) {
    this.node = /** @type {Placed} */ (template.content.firstElementChild?.cloneNode(true));
    const of = (/** @type {string} */ name) => /** @type {Placed} */ (this.node.querySelector(`.${name}`));
    this.parts = {
      elbow: of("elbow"), body: of("body"), fill: of("fill"), tail: of("tail"), ghost: of("ghost"),
      cancel: of("mark-cancel"), stop: of("mark-stop"), label: of("label"),
    };
  }

  /**
   * Shows `request` in `row`, `up` rows below its parent. Writes what does not move with time.
   * @param {PageRequest} request @param {number} row @param {number} up @param {boolean} picked
   */
  show(request, row, up, picked) {
    this.row = row;
    if (this.request !== request || this.up !== up) {
      this.request = request;
      this.up = up;
      const words = stateWords(request);
      const tone = shownState(request) === "ended" && request.cancel ? outcomeWords(request.cancel, request.state).tone : words.tone;
      this.node.dataset.uid = request.uid;
      this.node.dataset.state = shownState(request);
      this.tone = `bar is-${tone}${request.cancel ? " has-cancel" : ""}`;
      const name = plain(request.name || request.method, 60);
      const texts = [name, request.progress && request.state !== "ended" ? far(request.progress) : null, request.cancel?.words];
      this.parts.label.textContent = texts.filter((text) => text).map((text) => plain(String(text), 80)).join(" · ");
      this.parts.elbow.hidden = !up;
      this.parts.elbow.style.setProperty("--up", String(up));
      this.parts.stop.className = `mark mark-stop is-${request.cancel ? outcomeWords(request.cancel, request.state).tone : tone}`;
      this.node.title = tip(request, words.text);
    }
    const shown = picked ? `${this.tone} is-picked` : this.tone;
    if (this.node.className !== shown) this.node.className = shown;
  }

  /**
   * Moves it to its place now; `x` maps a time of the session's clock to a pixel.
   * @param {(time: number) => number} x @param {number} clock @param {number} width
   */
  place(x, clock, width) {
    const { request, parts } = this;
    if (!request) return;
    const { settled, last } = ends(request, clock);
    const at = (/** @type {number} */ time) => Math.min(width + BEYOND, Math.max(-BEYOND, x(time)));
    const left = at(request.since);
    const whole = Math.max(LEAST, at(last) - left);
    put(this.node, left, whole);
    if (this.shownRow !== this.row) this.node.style.top = `${(this.shownRow = this.row) * ROW}px`;

    const body = Math.max(LEAST, at(settled) - left);
    put(parts.body, 0, body);
    const fraction = request.state === "ended" && request.settled?.how === "result" ? null : part(request.progress);
    put(parts.fill, 0, fraction === null ? null : Math.max(0, Math.min(body, at(request.since + fraction * (settled - request.since)) - left)));
    const { cancel } = request;
    const asked = cancel ? at(cancel.asked) - left : 0;
    put(parts.tail, asked, cancel && cancel.asked < settled ? body - asked : null);
    put(parts.ghost, body, last > settled ? Math.max(LEAST, whole - body) : null);
    put(parts.cancel, asked, cancel ? 0 : null);
    put(parts.stop, cancel?.after === undefined ? 0 : at(cancel.asked + cancel.after) - left, cancel?.after === undefined ? null : 0);
    put(parts.label, Math.max(0, -left), whole < LABELLED ? null : 0);
    if (whole >= LABELLED) {
      const room = Math.round(whole - Math.max(0, -left) - Math.max(0, left + whole - width));
      if (parts.label.room !== room) parts.label.style.maxWidth = `${Math.max(0, (parts.label.room = room))}px`;
    }
  }
}

/** @param {PageRequest} request @param {string} state */
function tip(request, state) {
  const lines = [
    `${plain(request.of.name, 40)}/${label(request)}`,
    `${plain(request.method, 120)} ${request.name ? plain(request.name, 120) : ""}`.trim(),
    request.settled ? `${state}, ${duration(request.settled.at - request.since)}` : state,
  ];
  if (request.cancel) lines.push(`cancel: ${plain(request.cancel.words)}`);
  if (request.late) lines.push(`late: ${several(request.late.answers, "answer")}, ${several(request.late.notices, "notification")}; the last ${age(request.late.at - (request.settled?.at ?? request.since))} after its end`);
  return lines.join("\n");
}

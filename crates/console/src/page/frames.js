// @ts-check
// The times of frames, measured only if the address ends in `?frames`.

import { byId } from "./words.js";

export class Frames {
  /** Frames drawn; milliseconds between two, and of our own work in one. */
  count = 0;
  /** @type {number[]} */
  between = [];
  /** @type {number[]} */
  work = [];
  /** @type {number | null} */
  #last = null;

  constructor() {
    this.on = new URLSearchParams(location.search).has("frames");
    if (this.on) Object.assign(globalThis, { frameTimes: this });
  }

  /** @param {number} stamp @param {number} work */
  drawn(stamp, work) {
    if (!this.on) return;
    this.count += 1;
    if (this.#last !== null) keep(this.between, stamp - this.#last);
    keep(this.work, work);
    this.#last = stamp;
    if (this.count % 30 === 0) {
      byId("frames").textContent =
        `Frames: ${at(this.between, 0.5)} ms between two in the median, ${at(this.between, 0.99)} ms at the 99th percentile; own work ${at(this.work, 0.5)} ms, ${at(this.work, 0.99)} ms at the 99th percentile.`;
    }
  }
}

/** Keeps the last thousand values. @param {number[]} list @param {number} value */
function keep(list, value) {
  list.push(value);
  if (list.length > 1000) list.shift();
}

/** @param {number[]} list @param {number} part */
function at(list, part) {
  const sorted = [...list].sort((a, b) => a - b);
  return (sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(1);
}

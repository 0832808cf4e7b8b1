// How long frames take: counted only where the address ends in `?frames`.

export class Frames {
  /** Frames drawn; milliseconds between two, and of our own work in one: the sums and the longest. */
  count = 0;
  between = [];
  work = [];
  #last = null;

  constructor() {
    this.on = new URLSearchParams(location.search).has("frames");
    if (this.on) globalThis.frameTimes = this;
  }

  drawn(stamp, work) {
    if (!this.on) return;
    this.count += 1;
    if (this.#last !== null) keep(this.between, stamp - this.#last);
    keep(this.work, work);
    this.#last = stamp;
    if (this.count % 30 === 0) {
      document.getElementById("frames").textContent =
        `Frames: ${at(this.between, 0.5)} ms between two, 99 of 100 within ${at(this.between, 0.99)} ms; own work ${at(this.work, 0.5)} ms, 99 of 100 within ${at(this.work, 0.99)} ms.`;
    }
  }
}

/** The last thousand. */
function keep(list, value) {
  list.push(value);
  if (list.length > 1000) list.shift();
}

function at(list, part) {
  const sorted = [...list].sort((a, b) => a - b);
  return (sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(1);
}

// The scenarios, written once for every SDK. No progress can cross a cancel on the wire (the work has fallen silent, or
// waits for it), so that whatever comes afterwards was sent afterwards.
//
// A peer is what an SDK's client.mjs makes of its SDK:
//   request(label, behaviour, options, signal, onTick) -> Promise of a text
//   together(act)      what `act` sends leaves in one write
//   closed             a promise: the connection has ended
//   close()            the polite end
import { marked, marks } from "./marks.mjs";
import { did, saw, until, within } from "./observe.mjs";

export const REASON = "user pressed Stop";

/** One call: started when made, its outcome printed when it settles. With `quiet` it asks for no progress. */
export class Call {
  #abort = new AbortController();
  #ticks = 0;
  #waiting = [];

  constructor(peer, label, behaviour, options = {}) {
    this.label = label;
    did("call", { call: label, behaviour });
    const onTick = (tick) => {
      this.#ticks += 1;
      saw("progress", { call: label, tick });
      this.#waiting = this.#waiting.filter(({ at, resolve }) => at > this.#ticks || resolve());
    };
    const { signal } = this.#abort;
    const { quiet, ...rest } = options;
    this.settled = peer.request(label, behaviour, rest, signal, quiet ? undefined : onTick).then(
      (value) => saw("result", { call: label, value, cancelled: signal.aborted }),
      (error) => saw("error", { call: label, code: error.code, message: error.message, data: error.data, cancelled: signal.aborted }),
    );
  }

  cancel() {
    did("cancel", { call: this.label });
    this.#abort.abort(REASON);
  }

  ticked(at) {
    return within(`${this.label} tick ${at}`, new Promise((resolve) => {
      if (this.#ticks >= at) resolve();
      else this.#waiting.push({ at, resolve });
    }));
  }

  done() {
    return within(`${this.label} to settle`, this.settled);
  }

  started() {
    return until(`${this.label} to start`, () => marked(this.label, "started"));
  }
}

/** A round trip: what was sent before it has been read by the far end, what the far end sent before it is here. */
export function echo(peer, label) {
  return new Call(peer, label, "echo").done();
}

/** Enough round trips for an effect that takes a few turns of the far end's loop. */
async function barrier(peer) {
  for (let round = 1; round <= 3; round += 1) await within("a round trip", peer.request(`barrier ${round}`, "echo", {}));
}

export const scenarios = {
  async "cancel-in-flight"(peer) {
    const call = new Call(peer, "A", "obeys", { report: 10 });
    await call.ticked(10);
    call.cancel();
    await until("A to stop", () => marked("A", "stopped"));
    await call.done();
    await echo(peer, "B");
  },

  async "same-write"(peer) {
    await echo(peer, "ready");
    let call;
    await peer.together(() => {
      call = new Call(peer, "A", "listens");
      call.cancel();
    });
    await barrier(peer);
    stillRunning("A");
    await call.done();
    await echo(peer, "B");
  },

  async ignored(peer) {
    const call = new Call(peer, "A", "ignores", { ticks: 30, every_ms: 20, hold: 5 });
    await call.ticked(5);
    call.cancel();
    await until("A to finish", () => marked("A", "finished"));
    await call.done();
    await echo(peer, "B");
  },

  async late(peer) {
    const call = new Call(peer, "A", "late");
    await call.started();
    call.cancel();
    await call.done();
    await new Call(peer, "release", "release", { of: "A" }).done();
    await echo(peer, "B");
  },

  async mute(peer) {
    const call = new Call(peer, "A", "mute");
    await call.started();
    call.cancel();
    await call.done();
    await echo(peer, "B");
  },

  async killed(peer) {
    const cancelled = new Call(peer, "A", "mute");
    const waiting = new Call(peer, "B", "mute");
    await cancelled.started();
    await waiting.started();
    cancelled.cancel();
    await barrier(peer);
    did("kill");
    process.kill(marked("B", "started").pid, "SIGKILL");
    await waiting.done();
    await cancelled.done();
    await within("the end of the connection", peer.closed);
  },
};

/** Reports work that had started and, at this barrier, neither stopped nor finished. */
export function stillRunning(work) {
  const events = marks().filter((line) => line.work === work).map((line) => line.event);
  if (events.includes("started") && !events.includes("stopped")) saw("running", { work });
}

/** Runs one scenario and ends the process. */
export async function play(peer, table, name) {
  if (!table[name]) throw new Error(`no scenario named ${name}; there are: ${Object.keys(table).join(", ")}`);
  await table[name](peer);
  did("close");
  await within("the polite end", peer.close());
  did("end");
  process.exit(0);
}

// The scenarios, written once for every SDK. No progress can cross a cancel on the wire (the work has fallen silent, or
// waits for it), so that whatever comes afterwards was sent afterwards.
//
// A peer is what an SDK's client.mjs makes of its SDK:
//   request(label, behaviour, options, signal, onTick) -> Promise of a text
//   together(act)      what `act` sends leaves in one write
//   closed             a promise: the connection has ended
//   close()            the polite end
//   ask(method, params)   a promise of the result of any request
//   offersTasks()      whether the server has said that it makes tasks of calls (2025-11-25)
//   subscribe()        a promise of { changed, close() }, where `changed` is a promise of the first change
import { mark, marked, marks } from "./marks.mjs";
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

/** Calls, cancels once it has started, and sees that the work stops. Another call works. */
async function cancelled(peer, work, behaviour, options, isDue) {
  const call = new Call(peer, work, behaviour, options);
  await isDue(call);
  call.cancel();
  await until(`${work} to stop`, () => marked(work, "stopped"));
  await call.done();
  await echo(peer, `after ${work}`);
}

/** Scenarios over HTTP. Several are played on one connection, so that each piece of work has a name of its own. */
export const httpScenarios = {
  progress: (peer) => new Call(peer, "progress", "obeys", { ticks: 50, every_ms: 10, report: 3 }).done(),

  // Whatever its client asks for, the tool says nothing: cancelled early, the call has no head of a response yet.
  silent: (peer) => cancelled(peer, "silent", "waits", { quiet: true }, (call) => call.started()),

  ticking: (peer) => cancelled(peer, "ticking", "obeys", { every_ms: 10, report: 3 }, (call) => call.ticked(3)),

  async "late-answer"(peer) {
    const call = new Call(peer, "late", "late", { quiet: true });
    await call.started();
    call.cancel();
    await call.done();
    await until("late to be told", () => marked("late", "told"));
    await new Call(peer, "release", "release", { of: "late", quiet: true }).done();
    await echo(peer, "after late");
  },

  // The client's own limit. One that was over before the work had started shows nothing: then again, with a longer one.
  async timeout(peer) {
    for (let limit = 400; !marked("timeout", "started"); limit *= 4) {
      await new Call(peer, "timeout", "waits", { quiet: true, limit }).done();
    }
    await until("timeout to stop", () => marked("timeout", "stopped"));
    await echo(peer, "after timeout");
  },

  // A call becomes a task before a server that offers tasks. Where none are offered, a request of theirs is refused.
  async task(peer) {
    const step = (label, method, params, show) =>
      new Call({ request: async () => show(await peer.ask(method, params)) }, label, method).done();
    const status = (task) => task.status;
    if (!peer.offersTasks()) return step("task refused", "tasks/get", { taskId: "none" }, status);
    let taskId;
    await step("task", "tools/call", { name: "waits", arguments: { work: "task" }, task: { ttl: 600_000 } }, ({ task }) => {
      ({ taskId } = task);
      return task.status;
    });
    await until("task to start", () => marked("task", "started"));
    await step("task now", "tasks/get", { taskId }, status);
    await step("task cancelled", "tasks/cancel", { taskId }, status);
    await until("task to stop", () => marked("task", "stopped"));
    await echo(peer, "after task");
  },

  large: (peer) => filled(peer, "large", { quiet: true }),
  "large-event": (peer) => filled(peer, "large event", { report: 1 }),

  asks: (peer) => new Call(peer, "asks", "asks", { question: "name?", quiet: true }).done(),

  async subscription(peer) {
    did("call", { call: "subscription" });
    let subscription;
    const opened = peer.subscribe().then((value) => (subscription = value));
    opened.catch((error) => saw("error", { call: "subscription", message: error.message }));
    if (!(await within("the subscription", opened)) || !subscription) return;
    await new Call(peer, "changes", "changes", { quiet: true }).done();
    if (await within("a change", subscription.changed)) saw("result", { call: "subscription", value: "changed" });
    did("cancel", { call: "subscription" });
    await within("the end of the subscription", subscription.close());
    await echo(peer, "after subscription");
  },

  /** For clients that ask for the stream of a call that they cancelled: whoever watches the wire marks that it is refused. */
  returns: () => until("the refusal of a cancelled stream", () => marked("wire", "refused")),

  // Last on its connection, which is closed with the call in flight.
  async closing(peer) {
    await new Call(peer, "closing", "waits", { quiet: true }).started();
  },

  // Last on its connection: its server is killed with a call in flight.
  async death(peer) {
    const call = new Call(peer, "death", "waits", { quiet: true });
    await call.started();
    did("kill");
    process.kill(marked("death", "started").pid, "SIGKILL");
    await call.done();
  },

  // These two are played at once, each first on its connection: so the two calls have one id.
  async one(peer) {
    const call = new Call(peer, "one", "waits", { quiet: true });
    await until("both to start", () => marked("one", "started") && marked("other", "started"));
    call.cancel();
    await until("one to stop", () => marked("one", "stopped"));
    await call.done();
    await echo(peer, "after one");
  },
  async other(peer) {
    const call = new Call(peer, "other", "waits", { quiet: true });
    await until("one to stop", () => marked("one", "stopped"));
    await echo(peer, "after one");
    mark("other", "released");
    await call.done();
  },

  // Ends its own process, as whoever kills a client does: with a call of which nothing was seen, and one with progress.
  async "hang-up"(peer) {
    const ticking = new Call(peer, "hang-up ticking", "obeys", { every_ms: 10, report: 3 });
    await new Call(peer, "hang-up", "waits", { quiet: true }).started();
    await ticking.ticked(3);
    process.kill(process.pid, "SIGKILL");
  },
};

const LARGE = 1 << 20;

/** A large answer, of which only the length is shown. */
function filled(peer, work, options) {
  const request = async (...call) => `${(await peer.request(...call)).length} letters`;
  return new Call({ request }, work, "fills", { size: LARGE, ...options }).done();
}

/** Reports work that had started and, at this barrier, neither stopped nor finished. */
export function stillRunning(work) {
  const events = marks().filter((line) => line.work === work).map((line) => line.event);
  if (events.includes("started") && !events.includes("stopped")) saw("running", { work });
}

/** Runs scenarios one after the other and ends the process. */
export async function play(peer, table, ...names) {
  for (const name of names) {
    if (!table[name]) throw new Error(`no scenario named ${name}; there are: ${Object.keys(table).join(", ")}`);
    await table[name](peer);
  }
  did("close");
  await within("the polite end", peer.close());
  did("end");
  process.exit(0);
}

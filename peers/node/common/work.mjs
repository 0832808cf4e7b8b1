// What the servers do when called: the same behaviours behind every SDK.
import { once } from "node:events";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { mark, marked } from "./marks.mjs";

/** Names and one-line descriptions, for the servers that list their tools. */
export const behaviours = {
  echo: "answers at once",
  obeys: "ticks for `ticks` x `every_ms`, tells of the first `report` ticks; stops when its signal fires",
  listens: "as obeys, but only listens for the signal and never looks at it first",
  ignores: "waits at tick `hold` until its signal fires, and then ticks on to its end",
  waits: "says nothing; finishes when a mark releases it, stops when its signal fires",
  fills: "answers with `size` letters, after `report` reports",
  mute: "never answers",
  late: "answers when `release` names it, cancelled or not",
  asks: "asks the caller `question` and waits for the answer; `linked`: a question that hears of the signal",
  changes: "tells that the list of tools has changed",
  release: "lets the late work named `of` answer, and answers after it",
  dies: "kills its own process",
};

const held = new Map();

/**
 * Performs one call to its end.
 *
 * `progress(tick, ticks)` tells the caller. `answerAnyway(text)` is for SDKs that withhold the answer of a
 * cancelled request: it writes the answer past them, as a server that does not know cancellation would. `ask(question, signal)` asks the caller.
 */
export async function perform(call, { signal, progress = () => {}, answerAnyway, ask, change }) {
  const { behaviour, work, every_ms = 100, of } = call;
  const told = () => mark(work, "told", { reason: words(signal.reason) });
  switch (behaviour) {
    case "echo":
      return "echo";
    case "obeys":
      return ticking(call, progress, signal, () => sleep(every_ms, undefined, { signal }));
    case "listens": {
      const stop = new AbortController();
      signal.addEventListener("abort", () => stop.abort(signal.reason));
      return ticking(call, progress, stop.signal, () => sleep(every_ms, undefined, { signal: stop.signal }));
    }
    case "ignores":
      signal.addEventListener("abort", told);
      return ticking(call, progress, signal, async (tick) => {
        if (tick === call.hold + 1 && !signal.aborted) await once(signal, "abort");
        await sleep(every_ms);
      });
    case "waits":
      return waiting(work, signal);
    case "fills":
      for (let tick = 1; tick <= (call.report ?? 0); tick += 1) await progress(tick, call.report);
      return "x".repeat(call.size);
    case "mute":
      mark(work, "started");
      signal.addEventListener("abort", told);
      return new Promise(() => {});
    case "late":
      mark(work, "started");
      signal.addEventListener("abort", told);
      await new Promise((resolve) => held.set(work, resolve));
      await answerAnyway?.("late answer");
      mark(work, "answered");
      return "late answer";
    case "asks":
      mark(work, "started");
      signal.addEventListener("abort", told);
      try {
        await ask(call.question, call.linked ? signal : undefined);
      } catch (error) {
        mark(work, "stopped");
        throw error;
      }
      mark(work, "finished");
      return "finished";
    case "changes":
      await change();
      return "changed";
    case "release":
      held.get(of)?.();
      await turn();
      return "released";
    case "dies":
      mark(work, "started");
      return process.kill(process.pid, "SIGKILL");
    default:
      throw new Error(`no behaviour named ${behaviour}`);
  }
}

async function ticking({ work, ticks = 300, report = ticks }, progress, signal, pause) {
  mark(work, "started");
  for (let tick = 1; tick <= ticks; tick += 1) {
    try {
      await pause(tick);
    } catch (error) {
      mark(work, "stopped", { reason: words(signal.reason), tick });
      throw error;
    }
    mark(work, "progress", { tick });
    if (tick <= report) await progress(tick, ticks);
  }
  mark(work, "finished");
  return "finished";
}

async function waiting(work, signal) {
  mark(work, "started");
  while (!marked(work, "released")) {
    try {
      await sleep(5, undefined, { signal });
    } catch (error) {
      mark(work, "stopped", { reason: words(signal.reason) });
      throw error;
    }
  }
  mark(work, "finished");
  return "finished";
}

function words(reason) {
  return reason === undefined ? undefined : String(reason?.message ?? reason);
}

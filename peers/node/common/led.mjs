// A client that is led by its server: it calls `next`, is answered with an order, does it, and calls `next` again.
// What its calls came to it marks, beside the marks of the work it does for the server.
import { mark } from "./marks.mjs";
import { REASON } from "./scenarios.mjs";

/** `request(behaviour, call, { signal, timeout })` gives a text. Returns when it is told to end. */
export async function led(request) {
  const aborts = new Map();
  const orders = {
    call({ work, behaviour, timeout_ms: timeout }) {
      const abort = new AbortController();
      aborts.set(work, abort);
      request(behaviour, { work }, { signal: abort.signal, timeout }).then(
        (value) => mark(work, "result", { value }),
        ({ code, message }) => mark(work, "error", { code, message }),
      );
    },
    cancel: ({ work }) => aborts.get(work).abort(REASON),
  };
  for (;;) {
    const order = JSON.parse(await request("next", {}, {}));
    if (order.do === "end") return;
    orders[order.do](order);
  }
}

/** The SDK complained about a message that it could not place. */
export function complaint(message) {
  mark("sdk", "complaint", { message: String(message) });
}

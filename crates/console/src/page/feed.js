// @ts-check
// The event stream of the console: one EventSource, reopened while the page is open.

import { pageNow } from "./store.js";
import { moment } from "./words.js";

const KINDS = /** @type {const} */ (["snapshot", "changes", "ended", "gone"]);
/** Milliseconds between two attempts when the browser does not retry on its own. */
const RETRY = 2000;

/**
 * Feeds `store`; `banner` reports a lost connection. A stream that begins `anew` does not resume the one before.
 * @param {import("./store.js").Store} store @param {HTMLElement} banner
 */
export function follow(store, banner, anew = false) {
  const source = new EventSource("events");
  source.addEventListener("open", () => {
    banner.hidden = true;
    store.fleet = null;
    store.reconnected(anew);
    anew = false;
  });
  source.addEventListener("error", () => {
    if (store.lost === null) {
      store.lost = pageNow();
      store.version += 1;
      banner.textContent = `The console does not answer. The page shows the state at ${moment(store.lost)} and keeps trying. If the console was restarted, open the new link it printed.`;
      banner.hidden = false;
    }
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(store, banner, true), RETRY);
  });
  source.addEventListener("fleet", (message) => {
    store.fleet = JSON.parse(message.data);
    store.isRecorded = store.fleet?.recorded === true;
  });
  for (const kind of KINDS) {
    source.addEventListener(kind, (message) => {
      const { session, event, why, past } = JSON.parse(message.data);
      store.apply(session, kind, event, why, past === true);
    });
  }
}

// The stream of the console: one EventSource, opened again for as long as the page is open.

import { pageNow } from "./store.js";
import { moment } from "./words.js";

const KINDS = ["snapshot", "changes", "ended", "gone"];
/** Milliseconds between two tries where the browser does not try by itself. */
const RETRY = 2000;

/** Feeds `store`; `banner` tells of a lost connection. A stream that is begun `anew` knows nothing of the one before. */
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
      banner.textContent = `The console does not answer. What is shown is as it was at ${moment(store.lost)}; trying again. If it was started anew, open the link it printed.`;
      banner.hidden = false;
    }
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(store, banner, true), RETRY);
  });
  source.addEventListener("fleet", (message) => {
    store.fleet = JSON.parse(message.data);
  });
  for (const kind of KINDS) {
    source.addEventListener(kind, (message) => {
      const { session, event, why } = JSON.parse(message.data);
      store.apply(session, kind, event, why);
    });
  }
}

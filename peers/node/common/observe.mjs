// What the caller did and saw, one JSON line each on stdout, in order.
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const begun = performance.now();
let lines = 0;

function line(fields) {
  const ms = Math.round(performance.now() - begun);
  writeSync(1, `${JSON.stringify({ n: lines++, ms, ...fields })}\n`);
}

/** The caller's own act. */
export function did(what, fields = {}) {
  line({ did: what, ...fields });
}

/** Something that reached the caller. */
export function saw(what, fields = {}) {
  line({ saw: what, ...fields });
}

// A wait that is expected to end ends by its event; patience only bounds the wait of one that never will.
const patience = Number(process.env.RESCIND_PATIENCE_MS ?? 10_000);

/** Waits for `promise`, or reports that nothing came. Resolves to whether it came. */
export async function within(what, promise, patiences = 1) {
  const giveUp = new AbortController();
  const came = await Promise.race([
    promise.then(() => true, () => true),
    sleep(patience * patiences, false, { signal: giveUp.signal }).catch(() => false),
  ]);
  giveUp.abort();
  if (!came) saw("nothing", { waiting_for: what });
  return came;
}

/** Polls `condition` until it holds, or reports that it never did. */
export async function until(what, condition) {
  const end = performance.now() + patience;
  while (!condition()) {
    if (performance.now() > end) {
      saw("nothing", { waiting_for: what });
      return false;
    }
    await sleep(5);
  }
  return true;
}

/** Splits `SCENARIO … -- COMMAND ARGS…`, or `SCENARIO … --url URL`. */
export function commandLine() {
  const url = process.argv.indexOf("--url");
  if (url > 2 && url + 2 === process.argv.length) {
    return { words: process.argv.slice(2, url), url: new URL(process.argv[url + 1]) };
  }
  const cut = process.argv.indexOf("--");
  if (cut < 3 || cut + 1 >= process.argv.length) {
    process.stderr.write("usage: client.mjs SCENARIO… (-- COMMAND [ARGS…] | --url URL)\n");
    process.exit(2);
  }
  const [command, ...args] = process.argv.slice(cut + 1);
  return { words: process.argv.slice(2, cut), command, args };
}

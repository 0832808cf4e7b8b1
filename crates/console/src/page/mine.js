// @ts-check
// Which requests this browser has stopped, so that its user reads "by you". The feed knows operators only as such.

const KEPT = "rescind-stopped";
/** The most that are remembered. */
const MOST = 1000;

/** A request of any time: no two sessions begin in one microsecond under one name. @param {FeedSession} facts @param {string} key */
const sign = ({ name, started }, key) => `${name} ${started} ${key}`;

/** @returns {string[]} */
function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string").slice(-MOST) : [];
  } catch {
    return [];
  }
}

const mine = new Set(read());
/** Ordered by us, and its session has not answered yet. */
const asked = new Set();

/** Notes an order that is on its way. @param {FeedSession} facts @param {string[]} keys */
export function ask(facts, keys) {
  for (const key of keys) asked.add(sign(facts, key));
}

/** Remembers which requests of our order its session has accepted. @param {FeedSession} facts @param {string[]} keys @param {string[]} accepted */
export function remember(facts, keys, accepted) {
  for (const key of keys) asked.delete(sign(facts, key));
  if (!accepted.length) return;
  for (const key of accepted) mine.add(sign(facts, key));
  // Another tab may have stopped some.
  const all = [...new Set([...read(), ...mine])].slice(-MOST);
  try {
    localStorage.setItem(KEPT, JSON.stringify(all));
  } catch {
    // A browser that keeps nothing remembers until the page is loaded anew.
  }
  for (const one of mine) {
    if (mine.size <= MOST) break;
    mine.delete(one);
  }
}

/** Which operator cancelled a request: this browser's user, another, or not known yet. @param {FeedSession} facts @param {string} key */
export function who(facts, key) {
  const one = sign(facts, key);
  return mine.has(one) ? "you" : asked.has(one) ? "" : "an operator";
}

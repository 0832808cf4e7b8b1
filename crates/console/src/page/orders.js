// @ts-check
// Questions and orders to the console, most of which it passes on to a session's shim.

import { ask, remember } from "./mine.js";
import { plain } from "./words.js";

/**
 * Asks for a request and its messages. Returns them, or why there are none.
 * @param {{ session: string, key: string }} subject
 * @returns {Promise<{ known: FeedDetails, problem: "" } | { known: null, problem: string }>}
 */
export async function details({ session, key }) {
  try {
    const answer = await fetch(`sessions/${encodeURIComponent(session)}/requests/${encodeURIComponent(key)}`);
    const body = await answer.json();
    if (answer.ok) return { known: body, problem: "" };
    // Either its session has ended, or the shim has forgotten it: nothing failed.
    if (answer.status === 404) return { known: null, problem: "Not kept any more. What is known of it stands above." };
    return { known: null, problem: plain(body.error ?? `The console answered ${answer.status}.`) };
  } catch {
    return { known: null, problem: "The console does not answer." };
  }
}

/** Posts an order to a session. @param {string} session @param {"cancel" | "end"} kind @param {object} order */
export const post = (session, kind, order) => send(`sessions/${encodeURIComponent(session)}/${kind}`, order);

/**
 * Cancels requests of a session, and remembers which of them it accepted.
 * @param {import("./store.js").Session} session @param {string[]} requests @param {string} reason
 */
export async function cancel({ name, facts }, requests, reason) {
  ask(facts, requests);
  const sent = await post(name, "cancel", reason ? { requests, reason } : { requests });
  /** @type {{ key: string, accepted: boolean }[]} */
  const receipts = sent.reply?.requests ?? [];
  remember(facts, requests, receipts.filter(({ accepted }) => accepted).map(({ key }) => key));
  return sent;
}

/**
 * Posts an order. Returns the reply, or why there is none.
 * @param {string} path @param {object} order
 * @returns {Promise<{ reply: any, error: null } | { reply: null, error: string }>}
 */
export async function send(path, order) {
  let answer;
  try {
    answer = await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(order),
    });
  } catch {
    return { reply: null, error: "The console does not answer. The order may have been sent." };
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok) return { reply: body, error: null };
  const hint = body?.hint ? `; ${plain(body.hint)}` : "";
  return { reply: null, error: `${plain(body?.error ?? `the console answered ${answer.status}`)}${hint}` };
}

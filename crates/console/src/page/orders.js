// @ts-check
// Orders to a session's shim, which the console passes on.

import { plain } from "./words.js";

/**
 * Posts an order. Returns the reply, or why there is none.
 * @param {string} session @param {"cancel" | "end"} kind @param {object} order
 * @returns {Promise<{ reply: any, error: null } | { reply: null, error: string }>}
 */
export async function post(session, kind, order) {
  let answer;
  try {
    answer = await fetch(`sessions/${encodeURIComponent(session)}/${kind}`, {
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

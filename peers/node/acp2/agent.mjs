// An ACP agent on the official TypeScript SDK: a prompt, or a `_rescind/work` request, does what ../common/work.mjs says.
import * as acp from "@agentclientprotocol/sdk";
import { Readable, Writable } from "node:stream";
import { mark } from "../common/marks.mjs";
import { perform } from "../common/work.mjs";

const turns = new Map();

acp
  .agent({ name: "rescind-peer" })
  .onRequest("initialize", () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {} }))
  .onRequest("session/new", () => ({ sessionId: "session-1" }))
  .onRequest("session/prompt", async ({ params: { sessionId, prompt }, signal, client }) => {
    const turn = new AbortController();
    turns.set(sessionId, turn);
    if (signal.aborted) turn.abort(signal.reason);
    else signal.addEventListener("abort", () => turn.abort(signal.reason));
    const progress = (tick) =>
      client.notify("session/update", {
        sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: String(tick) } },
      });
    const work = JSON.parse(prompt[0].text);
    if (work.behaviour === "asks") return ask(client, sessionId, work);
    try {
      await perform(work, { signal: turn.signal, progress });
      return { stopReason: "end_turn" };
    } catch (error) {
      if (turn.signal.aborted) return { stopReason: "cancelled" };
      throw error;
    }
  })
  .onNotification("session/cancel", ({ params }) => turns.get(params.sessionId)?.abort("session/cancel"))
  .onRequest("_rescind/work", (params) => params, async ({ params, signal, client }) => {
    const progress = (tick) => client.notify("_rescind/progress", { work: params.work, tick });
    const ask = (title, cancellationSignal) =>
      client.request("session/request_permission", question(title), { cancellationSignal });
    return { text: await perform(params, { signal, progress, ask }) };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)))
  .closed.then(() => process.exit(0));

/** A turn that waits for a permission and for nothing else. */
async function ask(client, sessionId, { work }) {
  mark(work, "started");
  const { outcome } = await client.request("session/request_permission", question("a dangerous thing", sessionId));
  mark(work, outcome.outcome === "cancelled" ? "stopped" : "finished");
  return { stopReason: outcome.outcome === "cancelled" ? "cancelled" : "end_turn" };
}

function question(title, sessionId = "session-1") {
  const options = [{ kind: "allow_once", name: "Allow", optionId: "allow" }];
  return { sessionId, toolCall: { toolCallId: "call-1", title }, options };
}

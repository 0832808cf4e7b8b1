// An ACP client on the official TypeScript SDK 2.x, on its own stdio, led by its agent (../common/led.mjs).
import * as acp from "@agentclientprotocol/sdk";
import { Readable, Writable } from "node:stream";
import { complaint, led } from "../common/led.mjs";
import { perform } from "../common/work.mjs";

// The SDK has no error callback: what it cannot place it prints.
console.error = (...words) => complaint(words.join(" "));

const { agent } = acp
  .client({ name: "rescind-peer" })
  .onRequest("session/request_permission", async ({ params, signal }) => {
    await perform(JSON.parse(params.toolCall.title), { signal });
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

await agent.request("initialize", { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
await led(async (behaviour, call, { signal }) => {
  if (behaviour === "prompt") return prompt(call.work, signal);
  return (await agent.request("_rescind/work", { behaviour, ...call }, { cancellationSignal: signal })).text;
});
process.exit(0);

/** A turn, which is cancelled as every agent must understand. */
async function prompt(text, signal) {
  const sessionId = "session-1";
  signal.addEventListener("abort", () => agent.notify("session/cancel", { sessionId }));
  return (await agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] })).stopReason;
}

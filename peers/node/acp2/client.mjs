// An ACP client on the official TypeScript SDK: client.mjs SCENARIO -- AGENT COMMAND…
import * as acp from "@agentclientprotocol/sdk";
import { Readable, Writable } from "node:stream";
import { Child } from "../common/child.mjs";
import { commandLine, did, saw, until, within } from "../common/observe.mjs";
import { Call, echo, play, scenarios } from "../common/scenarios.mjs";
import { marked } from "../common/marks.mjs";

const { words: [scenario], command, args } = commandLine();
const child = new Child(command, args);
const ticks = new Map();
let sessionId;

// The SDK has no error callback: what it cannot place it prints.
console.error = (...words) => saw("callback", { message: words.map((word) => (word instanceof Error ? word.message : String(word))).join(" ") });

const { agent, closed } = acp
  .client({ name: "rescind-peer" })
  .onNotification("session/update", ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") ticks.get("prompt")?.(update.content.text);
  })
  .onNotification("_rescind/progress", (params) => params, ({ params: { work, tick } }) => ticks.get(work)?.(tick))
  .onRequest("session/request_permission", async ({ params, signal }) => {
    saw("permission", { event: "asked" });
    if (scenario === "prompt-permission") await withdrawn(signal);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(child.input), Readable.toWeb(child.output)));

/** The person who should decide has gone for lunch: only a cancel ends the question. */
async function withdrawn(signal) {
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  saw("permission", { event: "withdrawn" });
}

const peer = {
  async request(work, behaviour, { prompt, ...options }, signal, onTick) {
    const call = { work, behaviour, ...options };
    ticks.set(prompt ? "prompt" : work, onTick);
    if (!prompt) return (await agent.request("_rescind/work", call, { cancellationSignal: signal })).text;
    const params = { sessionId, prompt: [{ type: "text", text: JSON.stringify(call) }] };
    return (await agent.request("session/prompt", params, { cancellationSignal: signal })).stopReason;
  },
  together: (act) => child.together(act),
  closed: closed.then(() => saw("closed")),
  close: () => child.close(),
};

const more = {
  async "prompt-request-cancel"() {
    const call = new Call(peer, "A", "obeys", { prompt: true });
    await call.ticked(3);
    call.cancel();
    await until("A to stop", () => marked("A", "stopped"));
    await call.done();
    await echo(peer, "B");
  },

  async "prompt-session-cancel"() {
    const call = new Call(peer, "A", "obeys", { prompt: true });
    await call.ticked(3);
    did("session/cancel");
    await agent.notify("session/cancel", { sessionId });
    await until("A to stop", () => marked("A", "stopped"));
    await call.done();
    await echo(peer, "B");
  },

  async "prompt-permission"() {
    const call = new Call(peer, "A", "asks", { prompt: true });
    await call.started();
    await echo(peer, "ready");
    call.cancel();
    await call.done();
    await echo(peer, "B");
  },

  /** The example agent of SDK 1.2.1: its turn takes about five seconds and looks at no request's cancellation. */
  async example() {
    const call = new Call(peer, "A", "ignores", { prompt: true });
    await call.ticked(1);
    call.cancel();
    await within("A to settle", call.settled, 4);
    did("call", { call: "B" });
    await within("B to settle", agent.request("session/new", { cwd: "/", mcpServers: [] }).then(() => saw("result", { call: "B" })));
  },
};

await agent.request("initialize", { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
({ sessionId } = await agent.request("session/new", { cwd: "/", mcpServers: [] }));
did("connected");
await play(peer, { ...scenarios, ...more }, scenario);

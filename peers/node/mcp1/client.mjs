// An MCP client on the official TypeScript SDK: client.mjs SCENARIO… (-- SERVER COMMAND… | --url URL)
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CreateMessageRequestSchema, ResultSchema, ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { setImmediate as turn } from "node:timers/promises";
import { commandLine, did, saw } from "../common/observe.mjs";
import { Call, echo, httpScenarios, play, scenarios } from "../common/scenarios.mjs";

const { words, url, command, args } = commandLine();
const client = new Client({ name: "rescind-peer", version: "1.0.0" }, { capabilities: { sampling: {} } });
const transport = url
  ? new StreamableHTTPClientTransport(url)
  : new StdioClientTransport({ command, args, env: process.env });
client.onerror = (error) => saw("callback", { message: error.message });

client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
  saw("asked", { question: params.messages[0].content.text });
  return { model: "none", role: "assistant", content: { type: "text", text: "an answer" } };
});

const peer = {
  async request(work, behaviour, options, signal, onTick) {
    const onprogress = onTick && (({ progress }) => onTick(progress));
    const { tool = behaviour, limit: timeout, ...rest } = options;
    const call = { name: tool, arguments: { work, ...rest } };
    const { content } = await client.callTool(call, undefined, { signal, onprogress, timeout });
    return content[0].text;
  },
  offersTasks: () => client.getServerCapabilities().tasks !== undefined,
  ask: (method, params) => client.request({ method, params }, ResultSchema),
  async together(act) {
    const { stdin } = transport._process;
    stdin.cork();
    act();
    await turn();
    stdin.uncork();
  },
  closed: new Promise((resolve) => {
    client.onclose = () => {
      saw("closed");
      resolve();
    };
  }),
  /** In a session all changes are told. */
  async subscribe() {
    const changed = new Promise((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, resolve));
    return { changed, close: async () => {} };
  },
  async close() {
    await transport.terminateSession?.();
    await client.close();
  },
};

/** server-everything's long operation, which goes on and reports progress whatever is cancelled. */
async function everything() {
  const tool = "trigger-long-running-operation";
  const call = new Call(peer, "A", "ignores", { tool, duration: 3, steps: 10 });
  await call.ticked(3);
  call.cancel();
  await call.done();
  // Begun 0.9 s into A and half a second shorter than A in all: its end is a barrier after A's. Quiet, because
  // the SDK handles a result before the progress that came in the same read, and then complains about the progress.
  await new Call(peer, "B", "ignores", { tool, quiet: true, duration: 2.5, steps: 5 }).done();
  await echo({ request: (...call) => peer.request(call[0], call[1], { tool: "echo", message: "still here" }) }, "C");
}

await client.connect(transport);
did("connected", { server: client.getServerVersion(), revision: transport.protocolVersion });
await play(peer, { ...scenarios, ...httpScenarios, everything }, ...words);

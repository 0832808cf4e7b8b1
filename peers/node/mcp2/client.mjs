// An MCP client on the official TypeScript SDK 2.x, in the newest era that its server speaks, or by --legacy in that of
// the handshake, with --newest as one that knows no later revision:
// client.mjs [--legacy] [--newest REVISION] SCENARIO… (-- SERVER COMMAND… | --url URL)
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { commandLine, did, saw } from "../common/observe.mjs";
import { revisions } from "../common/revisions.mjs";
import { httpScenarios, play, scenarios } from "../common/scenarios.mjs";

const { words, url, command, args } = commandLine();
const known = revisions(words);
const isLegacy = words[0] === "--legacy" || known !== undefined;
const named = words.filter((word, at) => !word.startsWith("--") && words[at - 1] !== "--newest");
const client = new Client(
  { name: "rescind-peer", version: "1.0.0" },
  {
    capabilities: { sampling: {} },
    versionNegotiation: { mode: isLegacy ? "legacy" : "auto" },
    ...(known && { supportedProtocolVersions: known }),
  },
);
const transport = url
  ? new StreamableHTTPClientTransport(url)
  : new StdioClientTransport({ command, args, env: process.env });
client.onerror = (error) => saw("callback", { message: error.message });

client.setRequestHandler("sampling/createMessage", ({ params }) => {
  saw("asked", { question: params.messages[0].content.text });
  return { model: "none", role: "assistant", content: { type: "text", text: "an answer" } };
});

/** The schema of any result. */
const anything = { "~standard": { version: 1, vendor: "rescind-peer", validate: (value) => ({ value }) } };

const peer = {
  async request(work, behaviour, options, signal, onTick) {
    const onprogress = onTick && (({ progress }) => onTick(progress));
    const { limit: timeout, ...rest } = options;
    const call = { name: behaviour, arguments: { work, ...rest } };
    const { content } = await client.callTool(call, { signal, onprogress, timeout });
    return content[0].text;
  },
  offersTasks: () => client.getServerCapabilities().tasks !== undefined,
  ask: (method, params) => client.request({ method, params }, anything),
  async subscribe() {
    const changed = new Promise((resolve) => client.setNotificationHandler("notifications/tools/list_changed", resolve));
    const subscription = await client.listen({ toolsListChanged: true });
    return { changed, close: () => subscription.close() };
  },
  async close() {
    await transport.terminateSession?.();
    await client.close();
  },
};

await client.connect(transport);
did("connected", { server: client.getServerVersion(), revision: client.getNegotiatedProtocolVersion() });
await play(peer, { ...scenarios, ...httpScenarios }, ...named);

// An MCP client on the official TypeScript SDK 2.x, on its own stdio, led by its server (../common/led.mjs):
// led.mjs [--modern], in the handshake era or in that of 2026-07-28.
import { Client } from "@modelcontextprotocol/client";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { complaint, led } from "../common/led.mjs";
import { perform } from "../common/work.mjs";

const mode = process.argv.includes("--modern") ? "auto" : "legacy";
const client = new Client(
  { name: "rescind-peer", version: "1.0.0" },
  { capabilities: { sampling: {} }, versionNegotiation: { mode } },
);
client.onerror = (error) => complaint(error.message);

client.setRequestHandler("sampling/createMessage", async ({ params }, { mcpReq: { signal } }) => {
  const text = await perform(JSON.parse(params.messages[0].content.text), { signal });
  return { model: "none", role: "assistant", content: { type: "text", text } };
});

// Lines on stdio are lines on stdio, whichever side one is.
await client.connect(new StdioServerTransport());
await led(async (name, call, options) => {
  const { content } = await client.callTool({ name, arguments: call }, options);
  return content[0].text;
});
process.exit(0);

// An MCP client on the official TypeScript SDK 1.x, on its own stdio, led by its server (../common/led.mjs).
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CreateMessageRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { complaint, led } from "../common/led.mjs";
import { perform } from "../common/work.mjs";

const client = new Client({ name: "rescind-peer", version: "1.0.0" }, { capabilities: { sampling: {} } });
client.onerror = (error) => complaint(error.message);

client.setRequestHandler(CreateMessageRequestSchema, async ({ params }, { signal }) => {
  const text = await perform(JSON.parse(params.messages[0].content.text), { signal });
  return { model: "none", role: "assistant", content: { type: "text", text } };
});

// Lines on stdio are lines on stdio, whichever side one is.
await client.connect(new StdioServerTransport());
await led(async (name, call, options) => {
  const { content } = await client.callTool({ name, arguments: call }, undefined, options);
  return content[0].text;
});
process.exit(0);

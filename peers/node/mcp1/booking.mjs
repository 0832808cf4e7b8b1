// A client with a session on the official TypeScript SDK, of a server that asks its person something before it books:
// booking.mjs answers|stops (-- SERVER COMMAND… | --url URL). By `stops` the person stops the call while he is asked.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { once } from "node:events";
import { commandLine, did, saw, within } from "../common/observe.mjs";

const { words, url, command, args } = commandLine();
const client = new Client({ name: "rescind-peer", version: "1.0.0" }, { capabilities: { elicitation: {} } });
const transport = url
  ? new StreamableHTTPClientTransport(url)
  : new StdioClientTransport({ command, args, env: process.env });
const stop = new AbortController();
let withdrawn;

client.setRequestHandler(ElicitRequestSchema, async ({ params }, { signal }) => {
  saw("asked", { question: params.message });
  if (words[0] === "stops") {
    withdrawn = once(signal, "abort");
    stop.abort();
    await withdrawn;
    saw("withdrawn");
  }
  return { action: "accept", content: { word: params.message.toUpperCase() } };
});

await client.connect(transport);
await client.callTool({ name: "book", arguments: {} }, undefined, { signal: stop.signal }).then(
  ({ content }) => saw("result", { call: "book", value: content[0].text }),
  () => saw(stop.signal.aborted ? "cancelled" : "error", { call: "book" }),
);
if (withdrawn) await within("the end of the question", withdrawn);
// The server is asked once more, so that whatever it was sent before has arrived.
await client.listTools();
did("end");
process.exit(0);

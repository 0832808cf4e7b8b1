// An agent on the official TypeScript SDK, with a server behind `rescind run` and `rescind mcp`: agent.mjs agent -- RESCIND
// The SDK checks each structured result against the schema that its tool declares.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { commandLine, did, saw } from "../common/observe.mjs";

const { command } = commandLine();

async function start(...args) {
  const client = new Client({ name: "rescind-peer", version: "1.0.0" });
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  return client;
}

const server = await start("run", command, "__sample-server");
const rescind = await start("mcp");
const { tools } = await rescind.listTools();
saw("tools", { names: tools.map(({ name }) => name), schemas: tools.filter((tool) => tool.outputSchema).length });

/** Calls a tool of `rescind mcp`. */
async function use(name, given = {}, options = {}) {
  const { structuredContent, content, isError } = await rescind.callTool({ name, arguments: given }, undefined, options);
  saw(name, { structured: structuredContent, text: content[0].text, failed: isError ?? false });
  return structuredContent;
}

/** Begins a call of the server, and waits until it works. */
async function begin() {
  await new Promise((resolve) => {
    const call = server.callTool({ name: "obeys" }, undefined, { onprogress: resolve });
    call.catch(({ code }) => saw("ended", { code }));
  });
  did("began");
}

await begin();
const { requests } = await use("list_in_flight");
await use("receipt", { request: requests[0].request });
await use("cancel", { request: requests[0].request, reason: "no longer wanted" });
await use("receipt", { request: requests[0].request });
await use("cancel", { request: "1/1" });
await begin();
let reports = 0;
await use("stop", { within_seconds: 20 }, { onprogress: () => reports++ });
saw("reports", { some: reports > 0 });
await rescind.close();
await server.close();

// An MCP client that starts three long operations and waits: three.mjs TOOL ARGUMENTS -- SERVER COMMAND…
// Says what it sees of them, a line each; goes when its stdin ends.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { once } from "node:events";
import { commandLine, saw } from "../common/observe.mjs";

const { words: [tool, given], command, args } = commandLine();
const client = new Client({ name: "rescind-peer", version: "1.0.0" });
client.onerror = (error) => saw("callback", { message: error.message });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));

for (const work of ["A", "B", "C"]) {
  const onprogress = ({ progress }) => saw("progress", { work, progress });
  client.callTool({ name: tool, arguments: { work, ...JSON.parse(given) } }, undefined, { onprogress }).then(
    () => saw("result", { work }),
    ({ code, data }) => saw("error", { work, code, data }),
  );
}
await once(process.stdin.resume(), "end");
await client.close();

// Lists a server's tools with the official TypeScript SDK, and says what goes wrong in the SDK's own words:
// lister.mjs SERVER COMMAND…
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "rescind-peer", version: "1.0.0" });
const timeout = 5000;
try {
  await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }), { timeout });
  const { tools } = await client.listTools(undefined, { timeout });
  console.log(tools.map(({ name }) => name).join("\n"));
} catch (error) {
  console.log(`${error}`);
}
process.exit();

// An MCP client on the official TypeScript SDK 2.x that signs in: oauth-client.mjs URL [--any-resource] [--legacy]
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { signIn } from "../common/oauth.mjs";

const mode = process.argv.includes("--legacy") ? "legacy" : "auto";
const connect = (authProvider) => ({
  client: new Client({ name: "rescind-peer", version: "1.0.0" }, { versionNegotiation: { mode } }),
  transport: new StreamableHTTPClientTransport(new URL(process.argv[2]), { authProvider }),
});

await signIn("typescript2", connect, (transport, callback) => transport.finishAuth(callback));

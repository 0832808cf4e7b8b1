// An MCP client on the official TypeScript SDK that signs in: oauth-client.mjs URL [--any-resource]
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { signIn } from "../common/oauth.mjs";

const connect = (authProvider) => ({
  client: new Client({ name: "rescind-peer", version: "1.0.0" }),
  transport: new StreamableHTTPClientTransport(new URL(process.argv[2]), { authProvider }),
});

await signIn("typescript1", connect, (transport, callback) => transport.finishAuth(callback.get("code")));

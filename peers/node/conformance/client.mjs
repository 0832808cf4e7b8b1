// The client that the conformance suite calls for, on the TypeScript SDK 2.x: `client.mjs URL`, which speaks HTTP itself,
// or `client.mjs --through PROGRAM URL`, which is on stdio with `PROGRAM run --url URL` for its server. The suite says in
// the environment which scenario it plays.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const isModern = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION === "2026-07-28";
const { toolCalls = [] } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const url = process.argv.at(-1);
const through = process.argv.indexOf("--through") + 1;

// These servers of the suite cannot be asked which revisions they speak, so the client is told.
const SILENT = /^http-|^sep-2322-/;
const SPEAKS = { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: { tools: {}, resources: {}, prompts: {} }, ttlMs: 0, cacheScope: "private" };

function open() {
  const transport = through
    ? new StdioClientTransport({ command: process.argv[through], args: ["run", "--url", url], env: process.env, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(url));
  if (!SILENT.test(scenario)) return transport;
  const send = transport.send.bind(transport);
  transport.send = async (message, options) => {
    if (message.method !== "server/discover") return send(message, options);
    queueMicrotask(() => transport.onmessage({ jsonrpc: "2.0", id: message.id, result: SPEAKS }));
  };
  return transport;
}

const capabilities = { elicitation: { form: { applyDefaults: true } }, ...(isModern ? { sampling: {}, roots: { listChanged: true } } : {}) };
const versionNegotiation = isModern ? { mode: "auto" } : undefined;
const client = new Client({ name: "rescind-peer-conformance", version: "1.0.0" }, { capabilities, versionNegotiation });
client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: isModern ? { confirmed: true } : {} }));
if (isModern) client.setRequestHandler("roots/list", () => ({ roots: [] }));

const call = (name, args = {}) => client.callTool({ name, arguments: args });
const listed = async () => (await client.listTools()).tools.map(({ name }) => name);

const scenarios = {
  initialize: listed,
  tools_call: async () => (await listed()).includes("add_numbers") && call("add_numbers", { a: 5, b: 3 }),
  "elicitation-sep1034-client-defaults": async () => (await listed()) && call("test_client_elicitation_defaults"),
  "sse-retry": async () => (await listed()) && call("test_reconnection"),
  "request-metadata": () => {},
  "sep-2322-client-request-state": async () => {
    for (const name of ["echo_state", "no_state", "unrelated"]) await call(`test_mrtr_${name}`);
    // A result without its type is an error to this SDK.
    await call("test_mrtr_no_result_type").catch(() => {});
  },
  "http-standard-headers": async () => {
    await call((await listed())[0]);
    await client.readResource({ uri: (await client.listResources()).resources[0].uri });
    await client.getPrompt({ name: (await client.listPrompts()).prompts[0].name, arguments: {} });
  },
  "http-custom-headers": async () => {
    await listed();
    for (const { name, arguments: args } of toolCalls) await call(name, args);
  },
  "http-invalid-tool-headers": async () => {
    for (const name of await listed()) await call(name, { region: "us-west1" }).catch(() => {});
  },
  "json-schema-ref-no-deref": listed,
  "json-schema-2020-12-preservation": async () => {
    const { tools } = await client.listTools();
    const { inputSchema } = tools.find(({ name }) => name === "json_schema_2020_12_tool");
    await call("json_schema_echo", { schema: inputSchema });
  },
};

await client.connect(open());
await scenarios[scenario]();
await client.close();
process.exit(0);

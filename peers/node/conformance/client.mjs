// The client that the conformance suite calls for, on the TypeScript SDK 2.x: `client.mjs URL`, which speaks HTTP itself
// and signs in itself, or `client.mjs --through PROGRAM URL`, which is on stdio with `PROGRAM run --url URL` for its
// server, and leaves signing in to that. The suite says in the environment which scenario it plays. If that goes wrong, a
// line on stderr begins with `failed: `.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Person } from "../common/oauth.mjs";

const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const isModern = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION === "2026-07-28";
const { toolCalls = [], client_id, client_secret } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const url = process.argv.at(-1);
const through = process.argv.indexOf("--through") + 1;

// These servers of the suite cannot be asked which revisions they speak, so the client is told.
const SILENT = /^http-|^sep-2322-/;
const SPEAKS = { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: { tools: {}, resources: {}, prompts: {} }, ttlMs: 0, cacheScope: "private" };

// A client metadata document that the suite takes, without fetching it.
const DOCUMENT = scenario === "auth/basic-cimd" ? "https://conformance-test.local/client-metadata.json" : undefined;

// It forgets what it has found out with each sign-in that it finishes, since a server may change its issuer.
class Forgetful extends Person {
  clientMetadataUrl = DOCUMENT;
  information = client_id && { client_id, client_secret };
  async redirectToAuthorization(page) {
    await super.redirectToAuthorization(page);
    this.isBack = true;
  }
  async finish(transport) {
    this.isBack = false;
    await transport.finishAuth(this.callback);
    this.discovered = undefined;
  }
}
const person = new Forgetful("rescind-peer-conformance");

// A desktop of its own for `rescind`: its sign-ins, and a browser whose person says yes at once.
const desktop = through && mkdtempSync(join(tmpdir(), "rescind-desktop-"));
const env = { ...process.env, RESCIND_SIGN_IN_DIR: join(String(desktop), "sign-in"), DISPLAY: ":77", PEER_NODE: process.execPath, PEER_SECRET: client_secret };
env.PATH = `${join(import.meta.dirname, "browser")}:${env.PATH}`;
process.on("exit", () => desktop && rmSync(desktop, { recursive: true, force: true }));

/** Signs in as a client that `run --url` cannot be given. */
function login() {
  const secret = client_secret ? ["--client-secret-env", "PEER_SECRET"] : [];
  const words = ["login", url, "--client-id", DOCUMENT ?? client_id, ...secret];
  const { status } = spawnSync(process.argv[through], words, { env, stdio: ["ignore", "ignore", "inherit"] });
  if (status !== 0) throw new Error("rescind login failed");
}

function open() {
  if (through && (DOCUMENT || client_id)) login();
  const transport = through
    ? new StdioClientTransport({ command: process.argv[through], args: ["run", "--url", url], env, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(url), { authProvider: person });
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
let client, transport;
async function connect() {
  client = new Client({ name: "rescind-peer-conformance", version: "1.0.0" }, { capabilities, versionNegotiation });
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: isModern ? { confirmed: true } : {} }));
  if (isModern) client.setRequestHandler("roots/list", () => ({ roots: [] }));
  transport = open();
  await client.connect(transport);
}

/** Does it, again after a sign-in that is wanted, twice at most: the SDK leaves it to its caller to finish one. */
async function signedIn(task) {
  for (let left = 2; ; left -= 1) {
    try {
      return await task();
    } catch (error) {
      if (!person.isBack || left === 0) throw error;
      await person.finish(transport);
    }
  }
}

const call = (name, args = {}) => signedIn(() => client.callTool({ name, arguments: args }));
const listed = async () => (await signedIn(() => client.listTools())).tools.map(({ name }) => name);

// In these the server or its issuer is not to be trusted, or never content, and no request may come through.
const VAIN = /^auth\/(resource-mismatch|iss-(supported-missing|wrong-issuer|unexpected|normalized)|metadata-issuer-mismatch|scope-retry-limit)$/;

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
const signsIn = async () => (await listed()).includes("test-tool") && call("test-tool");

let failure;
try {
  await signedIn(connect);
  await (scenario.startsWith("auth/") ? signsIn : scenarios[scenario])();
  await client.close();
  failure = VAIN.test(scenario) && "nothing was refused";
} catch ({ message }) {
  if (VAIN.test(scenario)) console.error(`refused: ${message}`);
  else failure = message;
}
if (failure) console.error(`failed: ${failure}`.replaceAll("\n", " "));
process.exit(failure ? 1 : 0);

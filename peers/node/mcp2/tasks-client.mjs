// An MCP client of tasks, on the official TypeScript SDK 2.x and its package for tasks, in the newest era that its server
// speaks: tasks-client.mjs SCENARIO -- SERVER COMMAND…
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient, toolDeclarationFromMcpTool } from "@modelcontextprotocol/ext-tasks/client";
import { mark, marked, marks } from "../common/marks.mjs";
import { commandLine, did, saw, until, within } from "../common/observe.mjs";
import { play, REASON } from "../common/scenarios.mjs";

const { words: [scenario], command, args } = commandLine();
const clientInfo = { name: "rescind-task-peer", version: "1.0.0" };
const clientCapabilities = { elicitation: { form: {} } };

/** A transport on which requests of the package for tasks go beside those of the SDK, which has no way for them. */
class Shared extends StdioClientTransport {
  #waiting = new Map();
  #last = 0;

  constructor(server) {
    super(server);
    let onmessage;
    // The SDK sets it more than once.
    Object.defineProperty(this, "onmessage", { get: () => onmessage, set: (given) => (onmessage = given && this.#before(given)) });
  }

  #before(given) {
    return (message, extra) => {
      if (message.method !== undefined || !String(message.id).startsWith("task ")) return given(message, extra);
      // An answer may cross the cancel of its request.
      this.#waiting.get(message.id)?.(message.error ? { kind: "error", error: message.error } : { kind: "result", result: message.result });
      this.#waiting.delete(message.id);
    };
  }

  dispatch(request, { signal } = {}) {
    const id = `task ${(this.#last += 1)}`;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, resolve);
      signal?.addEventListener("abort", () => {
        if (!this.#waiting.delete(id)) return;
        // The session may have ended with it.
        this.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id, reason: String(signal.reason) } }).catch(() => {});
        reject(signal.reason);
      });
      this.send({ jsonrpc: "2.0", id, ...request }).catch(reject);
    });
  }
}

const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: "auto" } });
const transport = new Shared({ command, args, env: process.env });
client.onerror = (error) => saw("callback", { message: error.message });
const closed = new Promise((resolve) => {
  client.onclose = () => {
    saw("closed");
    resolve();
  };
});

/** Does one step, and prints what came of it. Gives its result. */
async function step(label, promise, show) {
  did("call", { call: label });
  let result;
  await within(`${label} to settle`, promise.then(
    (value) => {
      result = value;
      saw("result", { call: label, value: show(value) });
    },
    (error) => saw("error", { call: label, code: error.code, message: error.message }),
  ));
  return result;
}

const echo = (label) => tool(label, "echo", { work: label });
const release = (of) => tool(`release ${of}`, "release", { of });
const tool = (label, name, call) => step(label, client.callTool({ name, arguments: call }), ({ content }) => content[0].text);
const happened = (work, ...events) => until(`${work}: ${events}`, () => events.some((event) => marked(work, event)));
const ticks = (work) => marks().filter((line) => line.work === work && line.event === "progress").length;

/** Waits until the work itself has told of so many ticks more. */
function further(work, more) {
  const end = ticks(work) + more;
  return until(`${work} to go on`, () => ticks(work) >= end);
}

await client.connect(transport);
did("connected", { server: client.getServerVersion(), revision: client.getNegotiatedProtocolVersion() });
const { tools } = await client.listTools();
const declared = new Map(tools.map((tool) => [tool.name, toolDeclarationFromMcpTool(tool)]));

/** What the person answers a task's question with. */
async function onInputRequest({ kind }, { taskId }) {
  saw("result", { call: "question", value: `${kind}${taskId ? " of a task" : ""}` });
  return { action: "accept", content: {} };
}

const session = createTaskSessionFromClient(client, {
  endpointId: "rescind",
  tools: { currentTool: (name) => declared.get(name) },
  onInputRequest,
  onError: (error) => saw("callback", { message: error.message }),
  ...(client.getProtocolEra?.() === "modern" && {
    rawDispatch: (request, options) => transport.dispatch(request, options),
    v2RequestFraming: { protocolVersion: client.getNegotiatedProtocolVersion(), clientInfo, clientCapabilities },
  }),
});

const call = (work, name, options) =>
  session.callTool(name, { work, ...options?.arguments }, { signal: options?.signal, task: { preference: "allow", retentionMs: 600_000 } });
const create = (work, name) => step(work, call(work, name), ({ kind }) => kind);
const status = (label, { handle }) => step(label, session.task(handle.taskId).snapshot(), (view) => view.status);
const ending = (outcome) => (outcome.status === "completed" ? outcome.result.content[0].text : outcome.status);
const result = (label, execution) => step(label, execution.result(), ending);

const table = {
  async "task-completes"() {
    const task = await create("A", "plods");
    await further("A", 3);
    await status("A now", task);
    const waiting = result("A in the end", task);
    await release("A");
    await waiting;
    await status("A then", task);
    await echo("B");
  },

  async "task-cancelled"() {
    const [task, other] = [await create("A", "looks"), await create("C", "looks")];
    await further("A", 3);
    const waiting = result("A in the end", task);
    await step("cancel A", task.cancel(), () => "acknowledged");
    await happened("A", "stopped");
    await waiting;
    await status("A then", task);
    await further("C", 3);
    await status("C then", other);
    await release("C");
    await result("C in the end", other);
    await echo("B");
  },

  // An operator stops what is in flight: the client only waits for the work to end.
  async "task-stopped"() {
    const task = await create("A", "looks");
    await happened("A", "stopped");
    await status("A then", task);
    await echo("B");
  },

  // The call is given up before its handle has come.
  async "task-dropped-early"() {
    const abort = new AbortController();
    const called = step("A", call("A", "looks", { signal: abort.signal, arguments: { late: true } }), ({ kind }) => kind);
    await further("A", 3);
    did("cancel", { call: "A" });
    abort.abort(REASON);
    await called;
    await echo("barrier");
    if (!marked("A", "stopped")) saw("running", { work: "A" });
    await release("handle of A");
    await happened("A", "stopped");
    await echo("B");
  },

  async "task-asks"() {
    const task = await create("A", "asks");
    await result("A in the end", task);
    await happened("A", "answered");
    await status("A then", task);
    await echo("B");
  },
};

mark("client", client.getProtocolEra?.() ?? "unknown");
await play({ closed, close: () => client.close() }, table, scenario);

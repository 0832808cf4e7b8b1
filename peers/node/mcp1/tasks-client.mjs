// An MCP client of tasks (2025-11-25) on the official TypeScript SDK: tasks-client.mjs SCENARIO -- SERVER COMMAND…
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { CallToolResultSchema, CreateTaskResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { mark, marked, marks } from "../common/marks.mjs";
import { commandLine, did, saw, until, within } from "../common/observe.mjs";
import { play, REASON } from "../common/scenarios.mjs";

const RELATED = "io.modelcontextprotocol/related-task";
const TTL = 600_000;

const { words: [scenario], command, args } = commandLine();
const client = new Client({ name: "rescind-task-peer", version: "1.0.0" }, { capabilities: { elicitation: { form: {} } } });
const transport = new StdioClientTransport({ command, args, env: process.env });
client.onerror = (error) => saw("callback", { message: error.message });
const { tasks } = client.experimental;

/** What a question was answered with; without it a question is left alone, until it is withdrawn. */
let answer;
client.setRequestHandler(ElicitRequestSchema, async ({ params }, { signal }) => {
  mark("question", "started");
  saw("result", { call: "question", value: params._meta?.[RELATED] ? "related" : "unrelated" });
  if (answer) return answer;
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  mark("question", "stopped", { reason: String(signal.reason) });
  return { action: "cancel" };
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
    (error) => saw("error", { call: label, code: error.code, message: error.message, data: error.data }),
  ));
  return result;
}

const status = (task) => task.status;
/** A result says whose it is (TASK-10). */
const ending = ({ content, _meta }) => `${content[0].text}${_meta?.[RELATED] ? " related" : ""}`;

const tool = (label, name, call) => step(label, client.callTool({ name, arguments: call }), ({ content }) => content[0].text);
const echo = (label) => tool(label, "echo", { work: label });
const release = (of) => tool(`release ${of}`, "release", { of });
const get = (label, { taskId }) => step(label, tasks.getTask(taskId), status);
const cancel = (label, { taskId }) => step(label, tasks.cancelTask(taskId), status);
const result = (label, { taskId }, options) => step(label, tasks.getTaskResult(taskId, CallToolResultSchema, options), ending);

/** The task that a call of `name` becomes. */
async function create(work, name) {
  const params = { name, arguments: { work } };
  const created = await step(work, client.request({ method: "tools/call", params }, CreateTaskResultSchema, { task: { ttl: TTL } }), ({ task }) => task.status);
  return created.task;
}

const ticks = (work) => marks().filter((line) => line.work === work && line.event === "progress").length;

/** Waits until the work itself has told of so many ticks more. */
function further(work, more) {
  const end = ticks(work) + more;
  return until(`${work} to go on`, () => ticks(work) >= end);
}

/** Whether the work goes on so far that nobody can have stopped it, or is stopped. */
async function goesOn(work) {
  const end = ticks(work) + 5;
  await until(`${work} to go on or stop`, () => ticks(work) >= end || marked(work, "stopped"));
  if (!marked(work, "stopped")) saw("running", { work });
}

const happened = (work, ...events) => until(`${work}: ${events}`, () => events.some((event) => marked(work, event)));

const table = {
  async "task-completes"() {
    const task = await create("A", "plods");
    await further("A", 3);
    await get("A now", task);
    const waiting = result("A in the end", task);
    await release("A");
    await waiting;
    await get("A then", task);
    await echo("B");
  },

  async "task-cancelled"() {
    const [task, other] = [await create("A", "looks"), await create("C", "looks")];
    await further("A", 3);
    const waiting = result("A in the end", task);
    await cancel("cancel A", task);
    await happened("A", "stopped");
    await waiting;
    await get("A then", task);
    await cancel("cancel A again", task);
    await further("C", 3);
    await get("C then", other);
    await release("C");
    await result("C in the end", other);
    await echo("B");
  },

  // An operator stops what is in flight: the client only waits for the work to end.
  async "task-stopped"() {
    const task = await create("A", "looks");
    await happened("A", "stopped");
    await get("A then", task);
    await echo("B");
  },

  // Work that nobody told: it can only go on, and what it comes to is thrown away.
  async "task-plods"() {
    const task = await create("A", "plods");
    await further("A", 3);
    await cancel("cancel A", task);
    await goesOn("A");
    await release("A");
    await happened("A", "refused", "stopped");
    await get("A then", task);
    await echo("B");
  },

  // The SDK's stream of a task: its signal cancels, by a notification, the request that became the task.
  async "task-notified"() {
    const abort = new AbortController();
    const created = deferred();
    const params = { name: "plods", arguments: { work: "A" } };
    const stream = tasks.callToolStream(params, CallToolResultSchema, { task: { ttl: TTL }, signal: abort.signal });
    const over = (async () => {
      for await (const message of stream) {
        if (message.type === "taskCreated") created.resolve(message.task);
        if (message.type === "error") saw("error", { call: "A", code: message.error.code, message: message.error.message });
        if (message.type === "result") saw("result", { call: "A", value: ending(message.result) });
      }
    })();
    did("call", { call: "A" });
    const task = await created.promise;
    await further("A", 3);
    did("cancel", { call: "A" });
    abort.abort(REASON);
    await within("the stream to end", over);
    await echo("barrier");
    await get("A now", task);
    await goesOn("A");
    await release("A");
    await result("A in the end", task);
    await echo("B");
  },

  // The same before the handle has come.
  async "task-notified-early"() {
    const abort = new AbortController();
    const params = { name: "plods", arguments: { work: "A", late: true } };
    const call = client.request({ method: "tools/call", params }, CreateTaskResultSchema, { task: { ttl: TTL }, signal: abort.signal });
    const settled = step("A", call, ({ task }) => task.status);
    await further("A", 3);
    did("cancel", { call: "A" });
    abort.abort(REASON);
    await settled;
    await echo("barrier");
    await goesOn("A");
    await release("handle of A");
    await echo("barrier 2");
    // Whoever may list its tasks finds the one whose handle was lost.
    const { tasks: left } = await client.experimental.tasks.listTasks().catch(() => ({ tasks: [] }));
    for (const task of left) await get("what is left", task);
    await release("A");
    await echo("B");
  },

  // Whoever stands between gives the call up; its handle comes afterwards.
  async "task-given-up"() {
    const params = { name: "looks", arguments: { work: "A", late: true } };
    await step("A", client.request({ method: "tools/call", params }, CreateTaskResultSchema, { task: { ttl: TTL } }), ({ task }) => task.status);
    await release("handle of A");
    await happened("A", "stopped");
    await echo("B");
  },

  async "task-wait-cancelled"() {
    const task = await create("A", "plods");
    const abort = new AbortController();
    const waiting = result("wait for A", task, { signal: abort.signal });
    await echo("barrier");
    did("cancel", { call: "wait for A" });
    abort.abort(REASON);
    await waiting;
    await further("A", 3);
    await get("A now", task);
    await release("A");
    await result("A in the end", task);
    await echo("B");
  },

  async "task-asks"() {
    answer = { action: "accept", content: {} };
    const task = await create("A", "asks");
    await result("A in the end", task);
    await happened("A", "answered");
    await get("A then", task);
    await echo("B");
  },

  async "task-asks-cancelled"() {
    await cancelWhileAsked();
    for (let round = 1; round <= 3; round += 1) await echo(`barrier ${round}`);
    if (!marked("question", "stopped")) saw("running", { work: "question" });
    await echo("B");
  },

  async "task-asks-withdrawn"() {
    await cancelWhileAsked();
    await happened("question", "stopped");
    await echo("B");
  },
};

async function cancelWhileAsked() {
  const task = await create("A", "asks");
  const waiting = result("A in the end", task);
  await happened("question", "started");
  await get("A now", task);
  await cancel("cancel A", task);
  await waiting;
  await get("A then", task);
}

function deferred() {
  const made = {};
  made.promise = new Promise((resolve) => (made.resolve = resolve));
  return made;
}

const closed = new Promise((resolve) => {
  client.onclose = () => {
    saw("closed");
    resolve();
  };
});

await client.connect(transport);
did("connected", { server: client.getServerVersion() });
await play({ closed, close: () => client.close() }, table, scenario);

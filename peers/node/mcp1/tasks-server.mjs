// An MCP server of tasks (2025-11-25) on the official TypeScript SDK and its store in memory. The work tells what
// becomes of it by marks of its own; the SDK tells the work nothing.
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { ElicitResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { mark } from "../common/marks.mjs";

const TICK_MS = 10;
// Nobody is left behind by a client that never releases its work.
const TICKS = 3000;

const server = new McpServer(
  { name: "rescind-task-peer", version: "1.0.0" },
  {
    capabilities: { tools: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
    taskStore: new InMemoryTaskStore(),
    taskMessageQueue: new InMemoryTaskMessageQueue(),
  },
);

const released = new Set();
const text = (words) => ({ content: [{ type: "text", text: words }] });

/** Ticks until it is released, or `over` says that it has to end. */
async function tick(work, over = () => false) {
  for (let tick = 1; tick <= TICKS && !released.has(work); tick += 1) {
    await sleep(TICK_MS);
    if (await over()) return mark(work, "stopped", { tick });
    mark(work, "progress", { tick });
  }
  mark(work, "finished");
}

/** Each is given its task and what the SDK gives to a tool. */
const works = {
  plods: { about: "never looks whether its task was cancelled, as the SDK's own examples do", run: ({ work }) => tick(work) },
  looks: {
    about: "asks the store at each tick whether its task was cancelled",
    run: ({ work, taskId }, { taskStore }) => tick(work, async () => (await taskStore.getTask(taskId)).status === "cancelled"),
  },
  asks: {
    about: "asks the client, within its task",
    run: async ({ work, taskId }, { sendRequest }) => {
      const params = { mode: "form", message: work, requestedSchema: { type: "object", properties: {} } };
      const relatedTask = { taskId };
      const { action } = await sendRequest({ method: "elicitation/create", params }, ElicitResultSchema, { relatedTask });
      mark(work, "answered", { reason: action });
      mark(work, "finished");
    },
  },
};

for (const [name, { about, run }] of Object.entries(works)) {
  server.experimental.tasks.registerToolTask(
    name,
    { description: about, inputSchema: { work: z.string(), late: z.boolean().optional() }, execution: { taskSupport: "required" } },
    {
      async createTask({ work, late }, extra) {
        const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl, pollInterval: TICK_MS });
        mark(work, "started");
        run({ work, taskId: task.taskId }, extra)
          .then(() => extra.taskStore.storeTaskResult(task.taskId, "completed", text("finished")))
          .catch((error) => mark(work, "refused", { reason: error.message }));
        // The handle of late work leaves when it is released.
        while (late && !released.has(`handle of ${work}`)) await sleep(TICK_MS);
        return { task };
      },
      getTask: (_args, { taskId, taskStore }) => taskStore.getTask(taskId),
      getTaskResult: (_args, { taskId, taskStore }) => taskStore.getTaskResult(taskId),
    },
  );
}

server.registerTool("release", { description: "lets work come to its end", inputSchema: { of: z.string() } }, ({ of }) => {
  released.add(of);
  return text("released");
});

server.registerTool("echo", { description: "answers at once", inputSchema: { work: z.string() } }, () => text("echo"));

process.stdin.on("end", () => process.exit(0));
await server.connect(new StdioServerTransport());

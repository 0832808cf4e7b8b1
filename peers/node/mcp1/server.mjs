// An MCP server on the official TypeScript SDK whose tools do what ../common/work.mjs says, as tasks where they are asked
// to be: server.mjs [--http]
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, CreateMessageResultSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { setTimeout as sleep } from "node:timers/promises";
import { listen, sessions } from "../common/http.mjs";
import { behaviours, perform } from "../common/work.mjs";

const text = (words) => ({ content: [{ type: "text", text: words }] });

/** Makes a task of a call. The SDK tells its work nothing of a cancel (TASK-05): it has to ask the store. */
async function become(call, { taskStore, taskRequestedTtl }) {
  const task = await taskStore.createTask({ ttl: taskRequestedTtl, pollInterval: 10 });
  const status = async () => (await taskStore.getTask(task.taskId)).status;
  const stop = new AbortController();
  const watched = (async () => {
    while ((await status()) === "working") await sleep(5);
    stop.abort();
  })();
  const done = perform(call, { signal: stop.signal });
  done.then((words) => taskStore.storeTaskResult(task.taskId, "completed", text(words))).catch(() => {});
  watched.catch(() => {});
  return { task };
}

function describe() {
  const server = new Server(
    { name: "rescind-peer", version: "1.0.0" },
    {
      capabilities: { tools: { listChanged: true }, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
      taskStore: new InMemoryTaskStore(),
      taskMessageQueue: new InMemoryTaskMessageQueue(),
    },
  );

  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: Object.entries(behaviours).map(([name, description]) => ({ name, description, inputSchema: { type: "object" } })),
  }));

  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const { signal, requestId, sendRequest, _meta } = extra;
    if (params.task) return become({ ...params.arguments, behaviour: params.name }, extra);
    const progressToken = _meta?.progressToken;
    const words = await perform(
      { ...params.arguments, behaviour: params.name },
      {
        signal,
        progress: async (progress, total) => {
          if (progressToken === undefined) return;
          const notification = { method: "notifications/progress", params: { progressToken, progress, total } };
          // Not as the handler's own, which the SDK withholds once the call is cancelled.
          await server.notification(notification, { relatedRequestId: requestId });
        },
        answerAnyway: async (late) => {
          if (signal.aborted) await server.transport.send({ jsonrpc: "2.0", id: requestId, result: text(late) });
        },
        change: () => server.sendToolListChanged(),
        ask: (text, signal) => {
          const params = { messages: [{ role: "user", content: { type: "text", text } }], maxTokens: 1 };
          return sendRequest({ method: "sampling/createMessage", params }, CreateMessageResultSchema, { signal });
        },
      },
    );
    return text(words);
  });
  return server;
}

if (process.argv.includes("--http")) {
  listen(sessions(StreamableHTTPServerTransport, describe));
} else {
  process.stdin.on("end", () => process.exit(0));
  await describe().connect(new StdioServerTransport());
}

// An MCP server on the official TypeScript SDK whose tools do what ../common/work.mjs says: server.mjs [--http]
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, CreateMessageResultSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { listen, sessions } from "../common/http.mjs";
import { behaviours, perform } from "../common/work.mjs";

function describe() {
  const server = new Server({ name: "rescind-peer", version: "1.0.0" }, { capabilities: { tools: { listChanged: true } } });

  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: Object.entries(behaviours).map(([name, description]) => ({ name, description, inputSchema: { type: "object" } })),
  }));

  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal, requestId, sendRequest, _meta }) => {
    const content = (text) => ({ content: [{ type: "text", text }] });
    const progressToken = _meta?.progressToken;
    const text = await perform(
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
          if (signal.aborted) await server.transport.send({ jsonrpc: "2.0", id: requestId, result: content(late) });
        },
        change: () => server.sendToolListChanged(),
        ask: (text, signal) => {
          const params = { messages: [{ role: "user", content: { type: "text", text } }], maxTokens: 1 };
          return sendRequest({ method: "sampling/createMessage", params }, CreateMessageResultSchema, { signal });
        },
      },
    );
    return content(text);
  });
  return server;
}

if (process.argv.includes("--http")) {
  listen(sessions(StreamableHTTPServerTransport, describe));
} else {
  process.stdin.on("end", () => process.exit(0));
  await describe().connect(new StdioServerTransport());
}

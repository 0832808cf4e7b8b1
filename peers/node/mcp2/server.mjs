// An MCP server on the official TypeScript SDK 2.x, both eras, whose tools do what ../common/work.mjs says.
import { Server } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { behaviours, perform } from "../common/work.mjs";

const transport = new StdioServerTransport();

function server() {
  const server = new Server({ name: "rescind-peer", version: "1.0.0" }, { capabilities: { tools: { listChanged: true } } });
  server.setRequestHandler("tools/list", () => ({
    tools: Object.entries(behaviours).map(([name, description]) => ({ name, description, inputSchema: { type: "object" } })),
  }));
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq: { id, signal, _meta, notify, requestSampling } }) => {
    const content = (text) => ({ content: [{ type: "text", text }] });
    const progressToken = _meta?.progressToken;
    const text = await perform(
      { ...params.arguments, behaviour: params.name },
      {
        signal,
        progress: async (progress, total) => {
          if (progressToken === undefined) return;
          await notify({ method: "notifications/progress", params: { progressToken, progress, total } });
        },
        answerAnyway: async (late) => {
          const result = { ...content(late), resultType: "complete" };
          if (signal.aborted) await transport.send({ jsonrpc: "2.0", id, result });
        },
        ask: (text, signal) => {
          const params = { messages: [{ role: "user", content: { type: "text", text } }], maxTokens: 1 };
          return requestSampling(params, { signal });
        },
        change: () => server.sendToolListChanged(),
      },
    );
    return content(text);
  });
  return server;
}

process.stdin.on("end", () => process.exit(0));
serveStdio(server, { transport });

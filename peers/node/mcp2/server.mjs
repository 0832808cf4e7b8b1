// An MCP server on the official TypeScript SDK 2.x, both eras or, by --modern, 2026-07-28 alone, or, by --newest, as one
// that knows no later revision, whose tools do what ../common/work.mjs says:
// server.mjs [--modern | --newest REVISION] [--http]
import { NodeStreamableHTTPServerTransport, toNodeHandler } from "@modelcontextprotocol/node";
import { Server, classifyInboundRequest, createMcpHandler } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { listen, sessions } from "../common/http.mjs";
import { revisions } from "../common/revisions.mjs";
import { behaviours, perform } from "../common/work.mjs";

const isModern = process.argv.includes("--modern");
const known = revisions(process.argv);
const transport = new StdioServerTransport();

/** The server of stdio, of one session, or of one request (2026-07-28). `tell` tells all who listen of a change. */
function describe(tell) {
  const options = { capabilities: { tools: { listChanged: true } }, ...(known && { supportedProtocolVersions: known }) };
  const server = new Server({ name: "rescind-peer", version: "1.0.0" }, options);
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
        change: tell ?? (() => server.sendToolListChanged()),
      },
    );
    return content(text);
  });
  return server;
}

function serveHttp() {
  const legacy = isModern ? "reject" : undefined;
  const modern = createMcpHandler(() => describe(() => modern.notify.toolsChanged()), { legacy });
  const serveModern = toNodeHandler(modern);
  const serveSession = sessions(NodeStreamableHTTPServerTransport, () => describe());
  listen((request, response, body) => {
    const { method, headers } = request;
    const inbound = {
      httpMethod: method,
      protocolVersionHeader: headers["mcp-protocol-version"],
      mcpMethodHeader: headers["mcp-method"],
      body,
    };
    const isOfSession = !isModern && (method !== "POST" || classifyInboundRequest(inbound).kind === "legacy");
    return (isOfSession ? serveSession : serveModern)(request, response, body);
  });
}

if (process.argv.includes("--http")) {
  if (known) listen(sessions(NodeStreamableHTTPServerTransport, () => describe()));
  else serveHttp();
} else if (known) {
  process.stdin.on("end", () => process.exit(0));
  await describe().connect(transport);
} else {
  process.stdin.on("end", () => process.exit(0));
  serveStdio(() => describe(), { transport, legacy: isModern ? "reject" : "serve" });
}

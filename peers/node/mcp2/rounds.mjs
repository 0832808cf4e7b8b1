// A call in several rounds, as 2026-07-28 has it, on the official TypeScript SDK 2.x, on its own stdio:
// rounds.mjs server [--modern]|client. The client is started by its server, calls `book` once, marks what came of it, and
// ends. With --modern the server knows no sessions.
import { Client } from "@modelcontextprotocol/client";
import { Server, inputRequired } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { mark } from "../common/marks.mjs";

const form = (message) => ({ message, requestedSchema: { type: "object", properties: { word: { type: "string" } } } });

if (process.argv[2] === "server") {
  const describe = () => {
    const server = new Server({ name: "rescind-peer", version: "1.0.0" }, { capabilities: { tools: {} } });
    server.setRequestHandler("tools/list", () => ({ tools: [{ name: "book", inputSchema: { type: "object" } }] }));
    server.setRequestHandler("tools/call", async (_request, { mcpReq }) => {
      const { inputResponses: given } = mcpReq;
      const state = mcpReq.requestState?.();
      mark("book", "called", { round: given?.word ? "answered" : "first" });
      if (!given?.word) {
        return inputRequired({ inputRequests: { word: inputRequired.elicit(form("name?")) }, requestState: "first" });
      }
      const said = [...(state === "first" ? [] : JSON.parse(state)), given.word.content.word];
      if (said.length < 2) {
        const inputRequests = { word: inputRequired.elicit(form("town?")) };
        return inputRequired({ inputRequests, requestState: JSON.stringify(said) });
      }
      return { content: [{ type: "text", text: said.join(" of ") }] };
    });
    return server;
  };
  serveStdio(describe, { legacy: process.argv[3] === "--modern" ? "reject" : "serve" });
  process.stdin.on("end", () => process.exit(0));
} else {
  const client = new Client(
    { name: "rescind-peer", version: "1.0.0" },
    { capabilities: { elicitation: {} }, versionNegotiation: { mode: "auto" } },
  );
  client.setRequestHandler("elicitation/create", async ({ params }) => {
    mark("book", "asked", { message: params.message });
    return { action: "accept", content: { word: params.message.toUpperCase() } };
  });
  await client.connect(new StdioServerTransport());
  await client.callTool({ name: "book", arguments: {} }).then(
    ({ content }) => mark("book", "result", { value: content[0].text }),
    ({ code, message }) => mark("book", "error", { code, message }),
  );
  process.exit(0);
}

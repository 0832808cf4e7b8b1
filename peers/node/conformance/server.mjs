// The server that the conformance suite calls for, on the TypeScript SDK 2.x in both eras: `server.mjs`, which listens on
// the loopback at a port that it prints, or `server.mjs --stdio`. What it offers stands in ../../conformance/catalogue.json.
import { NodeStreamableHTTPServerTransport, toNodeHandler } from "@modelcontextprotocol/node";
import {
  CLIENT_CAPABILITIES_META_KEY,
  McpServer,
  ResourceTemplate,
  classifyInboundRequest,
  createMcpHandler,
  createRequestStateCodec,
  fromJsonSchema,
  hostHeaderValidationResponse,
  inputRequired,
  isInitializeRequest,
  localhostAllowedHostnames,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const catalogue = JSON.parse(readFileSync(new URL("../../conformance/catalogue.json", import.meta.url), "utf8"));
const PAUSE_MS = 50;
// So long that every response has become a stream, also one whose status waits for the server behind.
const LONG_MS = 1500;
const RETRY_MS = 100;
const state = createRequestStateCodec({ key: randomBytes(32) });
const text = (words) => ({ content: [{ type: "text", text: words }] });

/** Whether this answers the question, as far as the suite can tell. */
const answers = (request, answer) =>
  typeof answer === "object" && (request.method !== "elicitation/create" || answer?.action === "accept");

/**
 * Asks what is not answered yet: the questions that are to be asked, or `undefined` once all rounds are over. What was
 * answered in earlier rounds is in the state.
 */
async function ask(rounds, { mcpReq }, onlyDeclared) {
  const responses = mcpReq.inputResponses ?? {};
  const round = mcpReq.requestState()?.round ?? 0;
  const isAnswered = Object.entries(rounds[round]).every(([name, request]) => answers(request, responses[name]));
  const next = isAnswered ? round + 1 : round;
  if (next === rounds.length || (onlyDeclared && mcpReq.inputResponses)) return undefined;
  const declared = mcpReq.envelope?.[CLIENT_CAPABILITIES_META_KEY];
  const may = ([, { method }]) => !onlyDeclared || declared?.[method.split("/")[0]] !== undefined;
  const inputRequests = Object.fromEntries(Object.entries(rounds[next]).filter(may));
  return inputRequired({ inputRequests, requestState: await state.mint({ round: next }) });
}

/** What the tools with `does` do. */
const works = {
  logs: async (_, { mcpReq }) => {
    await mcpReq.log("info", "it runs");
    return text("logged");
  },
  logs_thrice: async (_, { mcpReq }) => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await mcpReq.notify({ method: "notifications/message", params: { level: "info", data } });
      await sleep(PAUSE_MS);
    }
    return text("logged");
  },
  progresses: async (_, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
      await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      await sleep(PAUSE_MS);
    }
    return text("finished");
  },
  reconnects: async (_, { http }) => {
    await sleep(PAUSE_MS);
    http?.closeSSE?.();
    await sleep(LONG_MS);
    return text("finished");
  },
};

/** The server of one session, or of one request (2026-07-28), or of stdio. `tellAll` tells all who listen of a change. */
function describe(tellAll) {
  const server = new McpServer(
    { name: "rescind-peer-conformance", version: "1.0.0" },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        logging: {},
        completions: {},
      },
      requestState: { verify: state.verify },
    },
  );
  const changes = (of) => async () => {
    if (tellAll) tellAll(of);
    else of === "tools" ? server.sendToolListChanged() : server.sendPromptListChanged();
    return text("told");
  };
  const asks = {
    sampling: ({ prompt }) => inputRequired.createMessage({ messages: [{ role: "user", ...{ content: { type: "text", text: prompt } } }], maxTokens: 100 }),
    elicitation: ({ message }) => {
      const properties = { username: { type: "string" }, email: { type: "string" } };
      return inputRequired.elicit({ message, requestedSchema: { type: "object", properties, required: ["username", "email"] } });
    },
  };
  for (const [name, tool] of Object.entries(catalogue.tools)) {
    const perform = async (args, cx) => {
      if (tool.error) throw new Error(tool.error);
      if (tool.result) return { content: tool.result };
      if (tool.does === "changes") return changes(tool.of)();
      if (tool.does) return works[tool.does](args, cx);
      const rounds = tool.rounds ?? [{ question: asks[tool.asks](args) }];
      return (await ask(rounds, cx, tool.only_declared)) ?? text(JSON.stringify(cx.mcpReq.inputResponses));
    };
    const inputSchema = fromJsonSchema(tool.schema ?? { type: "object", properties: {} });
    server.registerTool(name, { description: tool.about, inputSchema }, perform);
  }
  for (const { uri, name, mimeType, ...contents } of catalogue.resources) {
    server.registerResource(name, uri, { mimeType }, () => ({ contents: [{ uri, mimeType, ...contents }] }));
  }
  for (const { uriTemplate, name, mimeType } of catalogue.templates) {
    const template = new ResourceTemplate(uriTemplate, { list: undefined });
    const read = (uri, values) => ({ contents: [{ uri: uri.href, mimeType, text: JSON.stringify(values) }] });
    server.registerResource(name, template, { mimeType }, read);
  }
  for (const prompt of catalogue.prompts) {
    const fill = (args) => {
      const messages = JSON.stringify(prompt.messages).replace(/\{(\w+)\}/g, (_, name) => args[name]);
      return { messages: JSON.parse(messages).map((content) => ({ role: "user", content })) };
    };
    const perform = async (args, cx) => (prompt.rounds && (await ask(prompt.rounds, cx ?? args))) ?? fill(args);
    const properties = Object.fromEntries((prompt.arguments ?? []).map((name) => [name, { type: "string" }]));
    const argsSchema = prompt.arguments && fromJsonSchema({ type: "object", properties, required: prompt.arguments });
    server.registerPrompt(prompt.name, { description: prompt.description, argsSchema }, perform);
  }
  server.server.setRequestHandler("resources/subscribe", () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", () => ({}));
  server.server.setRequestHandler("logging/setLevel", () => ({}));
  server.server.setRequestHandler("completion/complete", () => ({ completion: { values: [], total: 0, hasMore: false } }));
  return server;
}

/** Keeps the events of one session, so that its streams can be resumed. */
function eventStore() {
  const events = [];
  return {
    storeEvent: async (stream, message) => `${stream}_${events.push({ stream, message }) - 1}`,
    getStreamIdForEventId: async (id) => id.slice(0, id.lastIndexOf("_")),
    replayEventsAfter: async (id, { send }) => {
      const [at, from] = [id.lastIndexOf("_"), Number(id.slice(id.lastIndexOf("_") + 1))];
      const stream = id.slice(0, at);
      for (const [number, event] of events.entries()) {
        // An empty event only gives the stream an id to come back behind.
        if (number > from && event.stream === stream && event.message.jsonrpc) await send(`${stream}_${number}`, event.message);
      }
      return stream;
    },
  };
}

function serveHttp() {
  const modern = createMcpHandler(() => describe((of) => (of === "tools" ? modern.notify.toolsChanged() : modern.notify.promptsChanged())));
  const serveModern = toNodeHandler(modern);
  const sessions = new Map();

  async function open() {
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: eventStore(),
      retryInterval: RETRY_MS,
      onsessioninitialized: (id) => sessions.set(id, transport),
    });
    transport.onclose = () => sessions.delete(transport.sessionId);
    await describe().connect(transport);
    return transport;
  }

  async function serve(request, response) {
    const { method, headers } = request;
    const refuse = (status, message) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message }, id: null }));
    };
    // No page of a browser reaches the server under a name of its own (DNS rebinding).
    const web = new Request(`http://${headers.host}/`, { headers: { host: headers.host } });
    if (hostHeaderValidationResponse(web, localhostAllowedHostnames())) return refuse(403, "this Host may not use the server");
    const chunks = await request.toArray();
    const body = method === "POST" ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
    const protocolVersionHeader = headers["mcp-protocol-version"];
    const inbound = { httpMethod: method, protocolVersionHeader, mcpMethodHeader: headers["mcp-method"], body };
    if (method === "POST" && classifyInboundRequest(inbound).kind !== "legacy") return serveModern(request, response, body);
    const id = headers["mcp-session-id"];
    const transport = id ? sessions.get(id) : isInitializeRequest(body) && (await open());
    if (!transport) return id ? refuse(404, "no such session") : refuse(400, "no session");
    await transport.handleRequest(request, response, body);
  }

  const server = createServer((request, response) => serve(request, response).catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    response.destroy();
  }));
  server.listen(0, "127.0.0.1", () => process.stderr.write(`listening on http://127.0.0.1:${server.address().port}/mcp\n`));
}

if (process.argv.includes("--stdio")) {
  process.stdin.on("end", () => process.exit(0));
  serveStdio(() => describe());
} else {
  serveHttp();
}

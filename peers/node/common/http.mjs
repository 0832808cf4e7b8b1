// A server on HTTP at a free port of the loopback, which it says on stderr.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

/** Serves with `handle(request, response, body)`; `body` is a POST's, read. */
export function listen(handle) {
  const server = createServer(async (request, response) => {
    try {
      const chunks = await request.toArray();
      const body = request.method === "POST" ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
      await handle(request, response, body);
    } catch (error) {
      process.stderr.write(`${error.stack}\n`);
      response.destroy();
    }
  });
  server.listen(0, "127.0.0.1", () => process.stderr.write(`listening on http://127.0.0.1:${server.address().port}/mcp\n`));
}

/** Serves requests of sessions; each has a `Transport` and a server of its own, which `describe` makes. */
export function sessions(Transport, describe) {
  const transports = new Map();
  async function open() {
    const transport = new Transport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => transports.set(id, transport),
    });
    await describe().connect(transport);
    return transport;
  }
  return async (request, response, body) => {
    const id = request.headers["mcp-session-id"];
    const transport = id ? transports.get(id) : await open();
    if (transport) return transport.handleRequest(request, response, body);
    response.writeHead(404).end();
  };
}

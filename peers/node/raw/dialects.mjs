// How each protocol frames and spells what the raw client sends.

const message = (fields) => ({ jsonrpc: "2.0", ...fields });

export const dialects = {
  mcp: {
    framing: "newline",
    initialize: message({
      id: "handshake",
      method: "initialize",
      params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "rescind-peer", version: "1.0.0" } },
    }),
    initialized: message({ method: "notifications/initialized" }),
    work: (id, { behaviour, ...call }) => message({ id, method: "tools/call", params: { name: behaviour, arguments: call } }),
    cancel: (requestId) => message({ method: "notifications/cancelled", params: { requestId, reason: "user pressed Stop" } }),
  },
  acp: {
    framing: "newline",
    initialize: message({ id: "handshake", method: "initialize", params: { protocolVersion: 1, clientCapabilities: {} } }),
    work: (id, call) => message({ id, method: "_rescind/work", params: call }),
    cancel: (requestId) => message({ method: "$/cancel_request", params: { requestId } }),
  },
  lsp: {
    framing: "content-length",
    initialize: message({ id: "handshake", method: "initialize", params: { processId: null, rootUri: null, capabilities: {} } }),
    initialized: message({ method: "initialized", params: {} }),
    work: (id, call) => message({ id, method: "work/run", params: call }),
    cancel: (id) => message({ method: "$/cancelRequest", params: { id } }),
  },
};

/** Both framings, just enough of each: whole frames in, whole frames out. */
export class Frames {
  #framing;
  #rest = Buffer.alloc(0);

  constructor(framing) {
    this.#framing = framing;
  }

  write(frame) {
    const body = JSON.stringify(frame);
    return Buffer.from(this.#framing === "newline" ? `${body}\n` : `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  }

  *read(chunk) {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (let body = this.#next(); body !== undefined; body = this.#next()) yield JSON.parse(body);
  }

  #next() {
    if (this.#framing === "newline") return this.#take(0, this.#rest.indexOf("\n"), 1);
    const header = this.#rest.indexOf("\r\n\r\n");
    if (header < 0) return undefined;
    const length = Number(/content-length: *(\d+)/i.exec(this.#rest.toString("latin1", 0, header))[1]);
    return this.#take(header + 4, header + 4 + length, 0);
  }

  #take(start, end, delimiter) {
    if (end < start || end > this.#rest.length) return undefined;
    const body = this.#rest.toString("utf8", start, end);
    this.#rest = this.#rest.subarray(end + delimiter);
    return body;
  }
}

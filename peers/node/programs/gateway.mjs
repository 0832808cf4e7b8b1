// MCP clients of a gateway: gateway.mjs SCENARIO URL, over SSE if the URL ends in /sse.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { did, saw, until } from "../common/observe.mjs";
import { marked } from "../common/marks.mjs";
import { Call, echo } from "../common/scenarios.mjs";

const [scenario, url] = process.argv.slice(2);
const Transport = url.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;

/** A client whose calls are named by `name`. Its first call has the id that every client's first call has. */
async function connect(name) {
  const client = new Client({ name, version: "1.0.0" });
  client.onerror = (error) => saw("callback", { client: name, message: error.message });
  await client.connect(new Transport(new URL(url)));
  const request = async (work, tool, options, signal, onTick) => {
    const onprogress = onTick && (({ progress }) => onTick(progress));
    const { content } = await client.callTool({ name: tool, arguments: { work, ...options } }, undefined, { signal, onprogress });
    return content[0].text;
  };
  return { request, close: () => client.close() };
}

const scenarios = {
  async echo() {
    const one = await connect("one");
    await echo(one, "A");
    await one.close();
  },

  async "cancel-in-flight"() {
    const one = await connect("one");
    const call = new Call(one, "A", "obeys", { report: 3 });
    await call.ticked(3);
    call.cancel();
    await until("A to stop", () => marked("A", "stopped"));
    await call.done();
    await echo(one, "B");
    await one.close();
  },

  /** Both calls have the same id, and the first is in flight when the second is made. */
  async "two-clients"() {
    const one = await connect("one");
    const two = await connect("two");
    const first = new Call(one, "A", "late", { quiet: true });
    await first.started();
    const second = new Call(two, "B", "echo", { quiet: true });
    await second.done();
    await new Call(one, "release", "release", { of: "A", quiet: true }).done();
    await first.done();
    await one.close();
    await two.close();
  },
};

await scenarios[scenario]();
did("end");
process.exit(0);

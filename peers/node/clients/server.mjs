// An MCP server of raw frames that marks who has started it: the program of its parent, and that program's arguments.
import { appendFileSync, readFileSync, readlinkSync } from "node:fs";
import { createInterface } from "node:readline";

const of = `/proc/${process.ppid}`;
const words = readFileSync(`${of}/cmdline`, "utf8").split("\0").slice(0, -1);
const mark = { work: process.argv[2], event: "started", parent: readlinkSync(`${of}/exe`), words };
appendFileSync(process.env.RESCIND_MARKS, `${JSON.stringify(mark)}\n`);

const results = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "marking", version: "1.0.0" },
  }),
  "tools/list": () => ({ tools: [{ name: "nothing", description: "Does nothing", inputSchema: { type: "object" } }] }),
  ping: () => ({}),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = results[method]?.(params);
  const answer = result ? { result } : { error: { code: -32601, message: "Method not found" } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
});

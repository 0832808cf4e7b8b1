// An MCP server on the TypeScript FastMCP whose tools do what ../common/work.mjs says: server.mjs FLAGS…
// `--answers`: what is in flight at the end of its input is answered. FastMCP by itself answers it only if the input ends
// within its first 100 ms or so, and otherwise closes its output at once; which of the two is up to the machine.
// `--stays`: something of its own keeps it alive after its input has ended, until it is told to end.
// `--saves MS`: when its input has ended it works that long, and marks what it has saved.
import { FastMCP } from "fastmcp";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { mark } from "../common/marks.mjs";
import { behaviours, perform } from "../common/work.mjs";

/** The place of what follows the flag, or 0. */
const flag = (name) => process.argv.indexOf(name) + 1;
// It would warn of a client that takes a second to connect: no two runs would print the same.
const quiet = () => {};
const logger = { debug: quiet, error: quiet, info: quiet, log: quiet, warn: quiet };
const server = new FastMCP({ name: "rescind-peer", version: "1.0.0", logger });

for (const [name, description] of Object.entries(behaviours)) {
  server.addTool({
    name,
    description,
    parameters: z.looseObject({}),
    execute: (call, { signal, reportProgress }) =>
      perform({ ...call, behaviour: name }, { signal, progress: (progress, total) => reportProgress({ progress, total }) }),
  });
}

server.addTool({
  name: "works",
  description: "answers after `ms`",
  parameters: z.object({ work: z.string(), ms: z.number() }),
  execute: async ({ work, ms }) => {
    mark(work, "started");
    await sleep(ms);
    mark(work, "finished");
    return "finished";
  },
});

process.stdin.on("end", async () => {
  if (!flag("--saves")) return;
  mark("save", "started");
  await sleep(Number(process.argv[flag("--saves")]));
  mark("save", "finished");
});
if (flag("--stays")) setInterval(() => {}, 60_000);

process.stderr.write("rescind-peer: ready\n");
await server.start({ transportType: "stdio" });
if (flag("--answers")) for (const event of ["end", "close"]) process.stdin.removeAllListeners(event);

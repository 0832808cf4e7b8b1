// A client of raw frames, for what an SDK cannot be made to send: client.mjs PROTOCOL SCENARIO -- SERVER COMMAND…
import { Child } from "../common/child.mjs";
import { Frames, dialects } from "./dialects.mjs";
import { marks } from "../common/marks.mjs";
import { commandLine, did, saw, until, within } from "../common/observe.mjs";
import { stillRunning } from "../common/scenarios.mjs";

const { words: [protocol, scenario], command, args } = commandLine();
const dialect = dialects[protocol];
const child = new Child(command, args);
const frames = new Frames(dialect.framing);
const waiting = new Map();

child.output.on("data", (chunk) => {
  for (const frame of frames.read(chunk)) {
    if (frame.method !== undefined) continue;
    const key = JSON.stringify(frame.id);
    const kind = frame.error ? "error" : "result";
    if (waiting.has(key)) waiting.get(key)(frame);
    else saw("answer", { id: frame.id, kind, code: frame.error?.code, message: frame.error?.message });
  }
});

const write = (...messages) => child.process.stdin.write(Buffer.concat(messages.map((message) => frames.write(message))));

function roundTrip(message) {
  const key = JSON.stringify(message.id);
  const answered = new Promise((resolve) => waiting.set(key, resolve)).then(() => waiting.delete(key));
  write(message);
  return within(`the answer to ${key}`, answered);
}

let barriers = 1000;
async function barrier() {
  for (let round = 1; round <= 3; round += 1) await roundTrip(dialect.work((barriers += 1), { behaviour: "echo" }));
}

const eventsOf = (event) => marks().filter((line) => line.event === event).map((line) => line.work);

const scenarios = {
  /** Ids that one careless comparison takes for each other or for none, all in flight; each cancel must hit its own. */
  async ids() {
    const ids = [0, 5, "5"];
    for (const id of ids) {
      const work = JSON.stringify(id);
      did("call", { id });
      write(dialect.work(id, { behaviour: "obeys", work }));
      await until(`${work} to start`, () => eventsOf("started").includes(work));
    }
    let before = [];
    for (const id of ids) {
      did("cancel", { id });
      write(dialect.cancel(id));
      await barrier();
      const stopped = eventsOf("stopped");
      saw("hit", { cancel: id, stopped: stopped.filter((work) => !before.includes(work)).map((work) => JSON.parse(work)) });
      before = stopped;
    }
  },

  async "same-write"() {
    await barrier();
    did("call and cancel", { id: 7 });
    write(dialect.work(7, { behaviour: "obeys", work: "7" }), dialect.cancel(7));
    await barrier();
    stillRunning("7");
  },

  /** The cancel overtakes its request, as it does with clients that queue the two apart. */
  async "cancel-first"() {
    await barrier();
    did("cancel and call", { id: 7 });
    write(dialect.cancel(7), dialect.work(7, { behaviour: "obeys", work: "7" }));
    await barrier();
    stillRunning("7");
  },
};

await roundTrip(dialect.initialize);
if (dialect.initialized) write(dialect.initialized);
did("connected");
await scenarios[scenario]();
await barrier();
did("close");
await within("the polite end", child.close());
did("end");
process.exit(0);

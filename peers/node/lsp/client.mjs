// A client on vscode-jsonrpc: client.mjs SCENARIO -- SERVER COMMAND…
import { CancellationTokenSource, StreamMessageReader, StreamMessageWriter, createMessageConnection } from "vscode-jsonrpc/node";
import { Child } from "../common/child.mjs";
import { commandLine, did, saw } from "../common/observe.mjs";
import { play, scenarios } from "../common/scenarios.mjs";

const { words: [scenario], command, args } = commandLine();
const child = new Child(command, args);
const ticks = new Map();
const callback = (message) => saw("callback", { message });
const logger = { error: callback, warn: callback, info: () => {}, log: () => {} };
const connection = createMessageConnection(new StreamMessageReader(child.output), new StreamMessageWriter(child.input), logger);
connection.onError(([error]) => callback(error.message));
connection.onUnhandledNotification(({ method }) => callback(`unhandled ${method}`));
connection.onNotification("$/progress", ({ token, value }) => ticks.get(token)?.(value.tick));

const peer = {
  async request(work, behaviour, options, signal, onTick) {
    const source = new CancellationTokenSource();
    signal?.addEventListener("abort", () => source.cancel());
    ticks.set(work, onTick);
    return (await connection.sendRequest("work/run", { work, behaviour, ...options }, source.token)).text;
  },
  together: (act) => child.together(act),
  closed: new Promise((resolve) => {
    connection.onClose(() => {
      saw("closed");
      resolve();
    });
  }),
  close: () => child.close(),
};

connection.listen();
await connection.sendRequest("initialize", { processId: process.pid, rootUri: null, capabilities: {} });
await connection.sendNotification("initialized", {});
did("connected");
await play(peer, scenarios, scenario);

// A client on vscode-jsonrpc, on its own stdio, led by its server (../common/led.mjs).
import { CancellationTokenSource, ErrorCodes, ResponseError, StreamMessageReader, StreamMessageWriter, createMessageConnection } from "vscode-jsonrpc/node";
import { complaint, led } from "../common/led.mjs";
import { perform } from "../common/work.mjs";
import { signalOf } from "./signal.mjs";

const REQUEST_CANCELLED = -32800;
const logger = { error: complaint, warn: complaint, info: () => {}, log: () => {} };
const connection = createMessageConnection(new StreamMessageReader(process.stdin), new StreamMessageWriter(process.stdout), logger);
connection.onError(([error]) => complaint(error.message));

connection.onRequest("work/ask", async ({ text }, token) => {
  try {
    return { text: await perform(JSON.parse(text), { signal: signalOf(token) }) };
  } catch (error) {
    return new ResponseError(token.isCancellationRequested ? REQUEST_CANCELLED : ErrorCodes.InternalError, error.message);
  }
});

connection.listen();
await connection.sendRequest("initialize", { processId: process.pid, rootUri: null, capabilities: {} });
await connection.sendNotification("initialized", {});
await led(async (behaviour, call, { signal }) => {
  const source = new CancellationTokenSource();
  signal?.addEventListener("abort", () => source.cancel());
  return (await connection.sendRequest("work/run", { behaviour, ...call }, source.token)).text;
});
process.exit(0);

// A language server on vscode-jsonrpc whose `work/run` does what ../common/work.mjs says.
import { CancellationTokenSource, ErrorCodes, ResponseError, StreamMessageReader, StreamMessageWriter, createMessageConnection } from "vscode-jsonrpc/node";
import { perform } from "../common/work.mjs";
import { signalOf } from "./signal.mjs";

const REQUEST_CANCELLED = -32800;
const connection = createMessageConnection(new StreamMessageReader(process.stdin), new StreamMessageWriter(process.stdout));

connection.onRequest("initialize", () => ({ capabilities: {}, serverInfo: { name: "rescind-peer" } }));
connection.onNotification("initialized", () => {});
connection.onRequest("work/run", async (call, token) => {
  const progress = (tick) => connection.sendNotification("$/progress", { token: call.work, value: { tick } });
  try {
    return { text: await perform(call, { signal: signalOf(token), progress, ask }) };
  } catch (error) {
    const code = token.isCancellationRequested ? REQUEST_CANCELLED : ErrorCodes.InternalError;
    return new ResponseError(code, error.message);
  }
});
connection.onClose(() => process.exit(0));
connection.listen();

function ask(text, signal) {
  const source = new CancellationTokenSource();
  signal?.addEventListener("abort", () => source.cancel());
  return connection.sendRequest("work/ask", { text }, source.token);
}

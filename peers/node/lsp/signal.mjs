/** An abort signal of a token of vscode-jsonrpc. */
export function signalOf(token) {
  const abort = new AbortController();
  const stop = () => abort.abort("$/cancelRequest");
  // A token that was cancelled before its handler ran says so, and never fires its event.
  if (token.isCancellationRequested) stop();
  else token.onCancellationRequested(stop);
  return abort.signal;
}

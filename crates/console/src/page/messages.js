// The messages of a request: fetched only when somebody asks to see them, since they may hold secrets.

import { laidOut, member } from "./json.js";
import { count, duration, moment, plain, plainLines } from "./words.js";

/** Milliseconds between two readings of the messages while they are shown. */
const AGAIN = 1000;

const byId = (id) => document.getElementById(id);

export class Messages {
  #subject = null;
  #shown = false;
  #seen = null;
  #timer = null;

  constructor() {
    this.ask = byId("messages-ask");
    this.note = byId("messages-note");
    this.list = byId("messages");
    byId("messages-show").addEventListener("click", () => {
      this.#shown = true;
      this.#read();
    });
  }

  /** Another request: nothing of it is shown before somebody asks. */
  about(session, key) {
    this.#subject = session === null ? null : { session, key };
    this.#shown = false;
    this.#seen = null;
    clearTimeout(this.#timer);
    this.#timer = null;
    this.ask.hidden = false;
    this.note.hidden = true;
    this.list.replaceChildren();
  }

  /** The request changed: what is shown is read again, once a second at most. */
  changed(request, session) {
    this.session = session;
    if (!this.#shown || this.#seen === request || this.#timer !== null) return;
    this.#seen = request;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#read();
    }, AGAIN);
  }

  async #read() {
    const subject = this.#subject;
    if (!subject) return;
    const { session, key } = subject;
    let details = null;
    let problem = "The console does not answer.";
    try {
      const answer = await fetch(`sessions/${encodeURIComponent(session)}/requests/${encodeURIComponent(key)}`);
      const body = await answer.json();
      if (answer.ok) details = body;
      else problem = plain(body.error ?? `The console answered ${answer.status}.`);
    } catch {
      // What is told then is said above.
    }
    if (this.#subject !== subject) return;
    if (details) this.#show(details);
    else this.#tell(problem);
  }

  #tell(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  #show({ request, frames, keptSince }) {
    const when = (at) => moment(this.session.moment(at), 3);
    this.ask.hidden = true;
    if (!frames.length) {
      this.#tell(
        keptSince === null || keptSince === undefined
          ? "No messages were kept: nobody watched when they passed."
          : keptSince > request.since
            ? `Its messages were not kept: they passed before somebody watched, which is since ${when(keptSince)}, or have made room for later ones.`
            : "None of its messages is kept any more: they have made room for later ones.",
      );
      this.list.replaceChildren();
      return;
    }
    this.#tell(keptSince > request.since ? `Earlier messages were not kept: nobody watched before ${when(keptSince)}, or they have made room for later ones.` : "");
    const open = [...this.list.querySelectorAll("details")].map((node) => node.open);
    const parts = [];
    const asked = frames.find((frame) => frame.from === request.from && member(frame.text, "method") !== null);
    const answered = frames.findLast((frame) => frame.from !== request.from && member(frame.text, "method") === null);
    const params = asked && member(asked.text, "params");
    if (params) parts.push(block("Params", params, true));
    const result = answered && member(answered.text, "result");
    const error = answered && member(answered.text, "error");
    if (result) parts.push(block("Result", result, true));
    if (error) parts.push(block("Error", error, true));
    for (const frame of frames) parts.push(block(this.#title(frame, request, when), frame.text, false, frame.length));
    const same = this.sign === frames.length && parts.length === this.list.children.length;
    this.sign = frames.length;
    // A message never changes: what somebody reads or has marked is left alone.
    if (same) return;
    parts.forEach((part, index) => (part.open = open[index] ?? part.open));
    this.list.replaceChildren(...parts);
  }

  #title(frame, request, when) {
    const method = member(frame.text, "method");
    const what = method ? plain(method.replaceAll('"', ""), 80) : member(frame.text, "error") ? "error" : member(frame.text, "result") ? "result" : "message";
    const [client, server] = frame.byShim ? ["shim →", "← shim"] : ["client →", "← server"];
    const arrow = frame.from === "client" ? client : server;
    return `${when(frame.at)}  ${arrow}  ${what}  ${count(frame.length)} bytes, ${duration(frame.at - request.since)} after it came`;
  }
}

/** One text, folded, with a button that copies it as it came. */
function block(title, text, open, length = 0) {
  const node = document.createElement("details");
  node.open = open;
  const summary = document.createElement("summary");
  summary.textContent = title;
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "quiet copy";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Could not copy";
    }
  });
  const pre = document.createElement("pre");
  pre.textContent = plainLines(laidOut(text));
  pre.tabIndex = 0;
  node.append(summary, copy, pre);
  const bytes = new TextEncoder().encode(text).length;
  if (length > bytes) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = `Cut: ${count(bytes)} of ${count(length)} bytes.`;
    node.append(note);
  }
  return node;
}

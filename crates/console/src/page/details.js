// The details pane: everything known of one request, its messages behind a click, and its cancel.

import { Messages } from "./messages.js";
import { pageNow } from "./store.js";
import {
  age, cause, command, duration, far, label, moment, outcomeWords, over, party, plain, several, shownState, stateWords,
} from "./words.js";

const HOW = {
  result: "with a result", error: "with an error", answered_here: "with an answer of the shim’s own",
  silent: "with silence, as its protocol asks", gone: "its requester went away",
};

const byId = (id) => document.getElementById(id);
const set = (node, text) => node.textContent !== text && (node.textContent = text);

/** Fills `node` with what `build` gives, unless `sign` says that it stands there already. */
function fill(node, sign, build) {
  if (node.sign === sign) return;
  node.sign = sign;
  node.replaceChildren(...build());
}

function element(name, text, className) {
  const node = document.createElement(name);
  node.textContent = text;
  if (className) node.className = className;
  return node;
}

/** Facts as the lines of a list: names that stay, and texts that change in place. */
function facts(list, lines) {
  const known = lines.filter(([, text]) => text);
  fill(list, known.map(([name]) => name).join("\n"), () =>
    known.map(([name]) => {
      const line = document.createElement("div");
      line.append(element("dt", name), element("dd", ""));
      return line;
    }),
  );
  known.forEach(([, text], index) => set(list.children[index].lastChild, text));
}

function steplist(list, steps, session) {
  const lines = steps.map(({ at, text }) => `${moment(session.moment(at), 1)}  ${text}`);
  fill(list, lines.join("\n"), () => lines.map((line) => element("li", line)));
}

export class Details {
  /** Which request: its session's name and its key. */
  subject = null;
  #back = null;
  #sending = false;

  constructor(store, { changed, focus }) {
    this.store = store;
    this.changed = changed;
    this.focus = focus;
    this.pane = byId("pane");
    this.form = byId("cancel");
    this.reason = byId("reason");
    this.note = byId("cancel-note");
    this.messages = new Messages();
    byId("pane-close").addEventListener("click", () => this.close());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    byId("kin").addEventListener("click", (event) => {
      const { key } = event.target.closest("button")?.dataset ?? {};
      if (key) this.open(this.subject.session, key);
    });
  }

  get uid() {
    return this.subject && `${this.subject.session}/${this.subject.key}`;
  }

  get request() {
    return this.subject && this.store.find(this.subject.session, this.subject.key);
  }

  /** Shows a request; with `toCancel` the reason is what to type next. */
  open(session, key, toCancel = false) {
    if (this.subject?.session !== session || this.subject?.key !== key) {
      this.subject = { session, key };
      this.last = this.request;
      this.reason.value = "";
      this.#tell("");
      this.messages.about(session, key);
    }
    this.pane.hidden = false;
    document.body.classList.add("has-pane");
    this.render();
    this.changed();
    if (toCancel && !this.form.hidden) this.reason.focus();
    else byId("pane-title").focus();
  }

  close() {
    if (!this.subject) return;
    this.subject = null;
    this.pane.hidden = true;
    document.body.classList.remove("has-pane");
    this.messages.about(null, null);
    this.changed();
    this.focus();
  }

  render() {
    if (!this.subject) return;
    const live = this.request;
    this.last = live ?? this.last;
    const request = this.last;
    if (!request) return;
    const session = this.store.sessions.get(this.subject.session) ?? request.of;
    const clock = session.clock(this.store.lost ?? pageNow());
    const shown = shownState(request);
    const open = request.state !== "ended";

    set(byId("pane-title"), request.name ? `${plain(request.method, 120)} ${plain(request.name, 200)}` : plain(request.method, 200));
    set(byId("pane-sub"), `${command(session)} ${plain(session.name, 60)}/${label(request)}`);
    const state = stateWords(request);
    const took = request.settled ? duration(request.settled.at - request.since) : age(clock - request.since);
    const line = byId("pane-state");
    const told = !live ? `${state.text} when last seen; the page no longer keeps it`
      : shown === "unknown" ? `unknown: its session is over (${over(session)})`
      : shown === "stuck" ? `stuck: ${request.cancel?.worksOn ? "still worked on" : request.settled ? "not seen to stop" : "still unanswered"} ${age(clock - (request.cancel?.asked ?? request.since))} after its cancel`
      : open ? `${state.text} for ${took}` : `${state.text} after ${took}`;
    fill(line, `${state.glyph}${told}${state.tone}`, () => [element("span", state.glyph, "glyph"), document.createTextNode(told)]);
    line.className = `pane-state is-${state.tone}`;

    const typing = this.form.contains(document.activeElement);
    this.form.hidden = !live || Boolean(request.cancel) || !open || session.isOver;
    // The focus of what disappears would be lost.
    if (typing && this.form.hidden) byId("pane-title").focus();
    this.#receipt(request, session, clock);
    this.#facts(request, session, clock);
    this.#kin(request, session);
    this.#progress(request, session, clock);
    this.messages.changed(request, session);
  }

  #receipt(request, session, clock) {
    const { cancel } = request;
    byId("receipt").hidden = !cancel;
    if (!cancel) return;
    const outcome = outcomeWords(cancel, request.state);
    const words = byId("receipt-words");
    fill(words, outcome.glyph + cancel.words, () => [element("span", outcome.glyph, "glyph"), document.createTextNode(plain(cancel.words))]);
    words.className = `words is-${outcome.tone}`;
    const time = (at) => `${moment(session.moment(at), 3)}, ${duration(at - request.since)} after it came`;
    facts(byId("receipt-facts"), [
      ["Asked by", cause(cancel.cause)],
      ["Reason", cancel.reason && plain(cancel.reason, 1024)],
      ["Asked at", time(cancel.asked)],
      ["Written", cancel.written === undefined ? "not yet" : `${duration(cancel.written - cancel.asked)} after it was asked`],
      ["Answer", cancel.after === undefined ? (cancel.confirms ? "none so far" : `none; ${plain(cancel.protocol, 40)} gives none to a cancelled request`)
        : `${cancel.answer === "error" ? "an error" : "a result"}, ${duration(cancel.after)} after it was asked`],
      ["Work", cancel.worksOn ? "goes on" : request.state === "ended" && !cancel.confirms && cancel.after === undefined ? "unknown whether it stopped" : ""],
    ]);
    const steps = session.trails.get(request.key)?.cancel ?? [];
    const trail = byId("receipt-trail");
    trail.hidden = steps.length < 2;
    steplist(trail, steps, session);
  }

  #facts(request, session, clock) {
    const { settled, late, deadline } = request;
    const asker = session.facts[request.from];
    const when = (at) => moment(session.moment(at), 3);
    const left = deadline === undefined ? 0 : deadline - clock;
    facts(byId("facts"), [
      ["Asked by", `${request.from}, ${party(asker)}`],
      ["Protocol", plain(asker.protocol, 60)],
      ["Id", `${plain(request.id, 200)}${request.upstream ? `; across ${plain(request.upstream, 200)}` : ""}`],
      ["Came", when(request.since)],
      ["Ended", settled && `${when(settled.at)}, ${HOW[settled.how] ?? "ended"}${settled.code === undefined ? "" : ` (${settled.code})`}`],
      ["Deadline", deadline === undefined ? "" : settled ? when(deadline) : left > 0 ? `in ${age(left)}, ${when(deadline)}` : `passed, ${when(deadline)}`],
      ["Task", request.task && plain(request.task, 200)],
      ["Late", late && `${several(late.answers, "answer")}, ${several(late.notices, "notice")} after its end, swallowed; the last ${duration(late.at - (settled?.at ?? request.since))} after`],
    ]);
  }

  #kin(request, session) {
    const above = request.parent && session.request(request.parent);
    const below = [...session.requests()].filter((other) => other.parent === request.key).slice(0, 20);
    const link = (words, other) => {
      const button = element("button", `${words} ${label(other)} ${plain(other.name ?? other.method, 80)}`, "quiet");
      button.type = "button";
      button.dataset.key = other.key;
      return button;
    };
    fill(byId("kin"), [request.parent, ...below.map((other) => other.key)].join("\n"), () => [
      ...(above ? [link("During", above)] : request.parent ? [element("span", "During a request that is no longer kept", "dim")] : []),
      ...below.map((other) => link("Led to", other)),
    ]);
  }

  #progress(request, session, clock) {
    const { progress } = request;
    byId("progress").hidden = !progress;
    if (!progress) return;
    const total = typeof progress.total === "number" ? ` (${progress.progress} of ${progress.total})` : "";
    const ago = request.state === "ended" ? "" : `, the last ${age(clock - progress.at)} ago`;
    const times = progress.count > 1 || total ? `, ${several(progress.count, "message")}` : "";
    set(byId("progress-now"), `${far(progress)}${total}${times}${ago}`);
    const steps = session.trails.get(request.key)?.progress ?? [];
    steplist(byId("progress-trail"), steps, session);
  }

  #tell(text, bad = false) {
    this.note.textContent = text;
    this.note.hidden = !text;
    this.note.classList.toggle("is-bad", bad);
  }

  /** Orders the cancel. What comes of it is told by the feed; only what stands in its way is told here. */
  async #send() {
    if (this.#sending || !this.subject) return;
    const { session, key } = this.subject;
    const reason = this.reason.value.trim();
    this.#sending = true;
    byId("cancel-send").disabled = true;
    this.#tell("Asking…");
    const [text, bad] = await order(session, key, reason);
    this.#sending = false;
    byId("cancel-send").disabled = false;
    if (this.subject?.session !== session || this.subject?.key !== key) return;
    if (this.form.contains(document.activeElement)) byId("pane-title").focus();
    this.#tell(text, bad);
    this.render();
  }
}

/** Asks for a cancel; what to say of it, and whether it failed. */
async function order(session, key, reason) {
  let answer;
  try {
    answer = await fetch(`sessions/${encodeURIComponent(session)}/cancel`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(reason ? { requests: [key], reason } : { requests: [key] }),
    });
  } catch {
    return ["The console does not answer: whether the cancel was asked for is not known.", true];
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) {
    const hint = body?.hint ? `; ${plain(body.hint)}` : "";
    return [`Not cancelled: ${plain(body?.error ?? `the console answered ${answer.status}`)}${hint}`, true];
  }
  const done = body?.requests?.[0];
  if (done?.accepted) return ["", false];
  const known = done?.request;
  if (!known) return ["Not cancelled: the session no longer knows this request.", true];
  if (known.cancel && known.state !== "ended") return [`A cancel is under way already: ${plain(known.cancel.words)}.`, true];
  return [`Not cancelled: it is not in flight any more (${stateWords({ ...known, of: { isOver: false } }).text}).`, true];
}

// @ts-check
// What sessions have started, and the end of what ended sessions have left.

import { send } from "./orders.js";
import { pageNow } from "./store.js";
import { byId, bytes, count, duration, moment, plain, setText, several } from "./words.js";

/** Milliseconds between two looks while the view is open. */
const EVERY = 2000;
/** The most processes that are listed. What is not listed is not ended. */
const LISTED = 500;

/** @type {Record<string, string>} */
const KEPT = { terminal: "kept: on a terminal", ancestor: "kept: started this console" };
const HEADINGS = ["Command", "PID", "Age", "CPU", "Memory", "State"];

const left = (/** @type {LedgerSession} */ session) => !session.shim.alive;
const free = (/** @type {LedgerSession} */ session) => (left(session) ? session.processes.filter((process) => !process.kept) : []);
const processes = (/** @type {number} */ n) => several(n, "process", "processes");
const total = (/** @type {LedgerSession[]} */ sessions) => sessions.reduce((sum, session) => sum + session.processes.length, 0);
const program = (/** @type {{ name: string, arguments: string[] }} */ process) => plain(process.arguments.join(" ") || `(${process.name})`, 200);

export class Processes {
  /** What is listed, orphans first. */
  #shown = /** @type {LedgerSession[]} */ ([]);
  #step = /** @type {"look" | "ask" | "end"} */ ("look");
  #timer = 0;

  /** @param {(text: string) => void} say */
  constructor(say) {
    this.say = say;
    this.dialog = /** @type {HTMLDialogElement} */ (byId("processes"));
    this.end = /** @type {HTMLButtonElement} */ (byId("processes-end"));
    this.send = /** @type {HTMLButtonElement} */ (byId("processes-send"));
    this.close = byId("processes-close");
    byId("processes-open").addEventListener("click", () => this.open());
    this.end.addEventListener("click", () => this.#to("ask"));
    this.send.addEventListener("click", () => this.#order());
    this.close.addEventListener("click", () => (this.#step === "ask" ? this.#to("look") : this.dialog.close()));
    this.dialog.addEventListener("close", () => clearTimeout(this.#timer));
  }

  open() {
    if (this.dialog.open) return;
    byId("processes-ended").replaceChildren();
    setText(byId("processes-note"), "");
    this.dialog.showModal();
    if (this.#step !== "end") this.#to("look");
  }

  /** @param {"look" | "ask" | "end"} step */
  #to(step) {
    this.#step = step;
    const chosen = this.#shown.flatMap(free).length;
    const sessions = this.#shown.filter((session) => free(session).length).length;
    this.end.hidden = step !== "look";
    this.send.hidden = step !== "ask";
    setText(this.send, `End ${processes(chosen)}`);
    setText(this.close, step === "ask" ? "Do not end" : "Close");
    const question = step === "ask" ? `End ${processes(chosen)} of ${several(sessions, "ended session")}, and what ${chosen === 1 ? "it starts" : "they start"} meanwhile? SIGTERM first, and SIGKILL 2.5 s later.` : "";
    setText(byId("processes-question"), step === "end" ? `Ending ${processes(chosen)}…` : question);
    if (step === "look") this.#look();
    this.close.focus();
  }

  /** Reads the processes now, and again while the view is open. The list stands still while a question is open. */
  async #look() {
    clearTimeout(this.#timer);
    const idle = () => !this.dialog.open || this.#step !== "look";
    if (idle()) return;
    const found = document.hidden ? null : await fetch("processes").then((answer) => (answer.ok ? answer.json() : undefined)).catch(() => undefined);
    if (idle()) return;
    if (found) this.#show(found.sessions);
    else if (found === undefined) setText(byId("processes-summary"), "The console does not answer. It is asked again.");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), EVERY);
  }

  /** @param {LedgerSession[]} all */
  #show(all) {
    let room = LISTED;
    const sorted = [...all.filter(left), ...all.filter((session) => !left(session))];
    this.#shown = sorted.map((session) => {
      const listed = session.processes.slice(0, room);
      room -= listed.length;
      return { ...session, processes: listed };
    });
    byId("processes-list").replaceChildren(...this.#shown.filter((session) => session.processes.length || !left(session)).map(section));
    const orphans = total(all.filter(left));
    const kept = all.filter(left).flatMap((session) => session.processes.filter((process) => process.kept)).length;
    const words = [
      `${processes(total(all))} of ${several(all.length, "session")}`,
      orphans ? `${count(orphans)} left by ended sessions` : "nothing is left by ended sessions",
      kept ? `${count(kept)} of these kept` : null,
      total(all) > LISTED ? `only the first ${count(LISTED)} are listed` : null,
    ];
    setText(byId("processes-summary"), words.filter(Boolean).join(" · "));
    setText(byId("totals-left"), orphans ? ` · ${processes(orphans)} left (${moment(pageNow())})` : "");
    this.end.disabled = !this.#shown.some((session) => free(session).length);
  }

  /** Ends what the question named. */
  async #order() {
    const meant = this.#shown.filter((session) => free(session).length);
    const sessions = meant.map((session) => ({ mark: session.mark, processes: free(session).map(({ pid, start }) => ({ pid, start })) }));
    this.#to("end");
    const { reply, error } = await send("processes/reap", { sessions });
    if (error === null) this.#tell(reply.processes, meant.flatMap(free));
    setText(byId("processes-note"), error === null ? "" : `Not ended: ${error}`);
    this.#to("look");
  }

  /** Lists how each one ended. @param {LedgerReaped[]} reaped @param {LedgerProcess[]} meant */
  #tell(reaped, meant) {
    const known = new Set(reaped.map(({ pid, start }) => `${pid} ${start}`));
    const before = meant.filter(({ pid, start }) => !known.has(`${pid} ${start}`));
    const all = [...reaped, ...before.map((process) => ({ ...process, ended: true, how: "not found: it has ended by itself, or is kept now" }))];
    const lines = all.map((process) => {
      const line = element("li", "", process.ended ? "is-confirmed" : "is-stuck");
      line.dataset.pid = String(process.pid);
      line.append(element("span", `${process.pid} ${program(process)}`), element("strong", `${process.ended ? "✓" : "▲"} ${plain(process.how)}`));
      return line;
    });
    byId("processes-ended").replaceChildren(...lines);
    const resist = all.filter((process) => !process.ended).length;
    this.say(`${processes(all.length - resist)} ended${resist ? `, ${count(resist)} not ended` : ""}`);
  }
}

/** @param {string} name @param {string} text @param {string} [style] */
function element(name, text, style = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (style) made.className = style;
  return made;
}

/** A session with the tree of its processes. @param {LedgerSession} session @param {number} index */
function section(session, index) {
  const made = element("section", "", left(session) ? "is-left" : "");
  made.dataset.session = session.session;
  const title = element("h3", `${plain(session.session, 40)} ${plain((session.command ?? []).join(" "), 120)}`);
  title.id = `processes-of-${index}`;
  const table = element("table", "");
  table.setAttribute("aria-labelledby", title.id);
  const head = element("tr", "");
  head.append(...HEADINGS.map((heading) => {
    const cell = element("th", heading);
    cell.setAttribute("scope", "col");
    return cell;
  }));
  const [thead, tbody] = [element("thead", ""), element("tbody", "")];
  thead.append(head);
  tbody.append(...session.processes.map((process) => row(session, process)));
  table.append(thead, tbody);
  made.append(title, element("p", about(session), "note"));
  if (session.processes.length) made.append(table);
  return made;
}

/** @param {LedgerSession} session */
function about({ shim, client, processes: list }) {
  if (!shim.alive) return `▲ ended; it has left ${processes(list.length)}`;
  if (!client) return "running; its client is unknown";
  const name = `${plain(client.name, 40)} (${client.pid})`;
  return client.alive ? `running; client: ${name}` : `running; its client has ended: ${name}`;
}

/** @param {LedgerSession} session @param {LedgerProcess} process */
function row(session, process) {
  const made = element("tr", "");
  made.dataset.pid = String(process.pid);
  const state = [left(session) ? "left" : null, process.stopped ? "stopped" : null, left(session) && process.kept ? KEPT[process.kept] : null];
  const cells = [
    program(process), String(process.pid), duration(process.age), process.cpu ? duration(process.cpu) : "0 s", bytes(process.memory),
    state.filter(Boolean).join(", "),
  ].map((text, column) => element("td", text, column ? "num" : "mono"));
  cells[0].style.setProperty("--depth", String(process.depth));
  made.append(...cells);
  return made;
}

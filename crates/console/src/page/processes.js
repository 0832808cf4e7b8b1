// @ts-check
// What sessions have started, here and in containers, and the end of what ended sessions have left.

import { send } from "./orders.js";
import { pageNow } from "./store.js";
import { byId, bytes, count, duration, moment, plain, setText, several } from "./words.js";

/** Milliseconds between two looks at each list while the view is open. An engine may need seconds to answer. */
const EVERY = { processes: 2000, "processes/containers": 10000 };
/** The most processes that are listed, and the most containers. What is not listed is not ended. */
const LISTED = 500;
const LISTED_CONTAINERS = 100;

/** @type {Record<string, string>} */
const KEPT = { terminal: "kept: on a terminal", ancestor: "kept: started this console" };
const HEADINGS = ["Command", "PID", "Age", "CPU", "Memory", "State"];

const left = (/** @type {LedgerSession} */ session) => !session.shim.alive;
const free = (/** @type {LedgerSession} */ session) => (left(session) ? session.processes.filter((process) => !process.kept) : []);
const leftIn = (/** @type {ShownSession} */ session) => session.containers.filter((container) => container.left);
const isToEnd = (/** @type {ShownSession} */ session) => free(session).length + leftIn(session).length > 0;
const processes = (/** @type {number} */ n) => several(n, "process", "processes");
const total = (/** @type {LedgerSession[]} */ sessions) => sessions.reduce((sum, session) => sum + session.processes.length, 0);
const program = (/** @type {{ name: string, arguments: string[] }} */ process) => plain(process.arguments.join(" ") || `(${process.name})`, 200);

export class Processes {
  #sessions = /** @type {LedgerSession[]} */ ([]);
  #containers = /** @type {LedgerContainer[]} */ ([]);
  /** What is listed, orphans first. */
  #shown = /** @type {ShownSession[]} */ ([]);
  #step = /** @type {"look" | "ask" | "end"} */ ("look");
  #timers = { processes: 0, "processes/containers": 0 };

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
    this.dialog.addEventListener("close", () => Object.values(this.#timers).forEach(clearTimeout));
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
    const meant = this.#shown.filter(isToEnd);
    const [chosen, contained] = [meant.flatMap(free).length, meant.flatMap(leftIn)];
    const these = things(chosen, contained);
    this.end.hidden = step !== "look";
    this.send.hidden = step !== "ask";
    setText(this.send, `End ${these}`);
    setText(this.close, step === "ask" ? "Do not end" : "Close");
    const meanwhile = chosen ? `, and what ${chosen === 1 ? "it starts" : "they start"} meanwhile` : "";
    const steps = [chosen ? "2.5 s later" : null, contained.length ? `1 s later${chosen ? " in containers" : ""}` : null].filter(Boolean).join(", ");
    const question = step === "ask" ? `End ${these} of ${several(meant.length, "ended session")}${meanwhile}? SIGTERM first, and SIGKILL ${steps}.` : "";
    setText(byId("processes-question"), step === "end" ? `Ending ${these}…` : question);
    if (step === "look") {
      this.#look("processes");
      this.#look("processes/containers");
    }
    this.close.focus();
  }

  /**
   * Reads a list now, and again while the view is open. The lists stand still while a question is open.
   * @param {"processes" | "processes/containers"} path
   */
  async #look(path) {
    clearTimeout(this.#timers[path]);
    const idle = () => !this.dialog.open || this.#step !== "look";
    if (idle()) return;
    const found = document.hidden ? null : await fetch(path).then((answer) => (answer.ok ? answer.json() : undefined)).catch(() => undefined);
    if (idle()) return;
    if (found) this.#take(found);
    else if (found === undefined) setText(byId("processes-summary"), "The console does not answer. It is asked again.");
    clearTimeout(this.#timers[path]);
    this.#timers[path] = setTimeout(() => this.#look(path), EVERY[path]);
  }

  /** @param {{ sessions?: LedgerSession[], containers?: LedgerContainer[], silent?: string[] }} found */
  #take({ sessions, containers, silent }) {
    this.#sessions = sessions ?? this.#sessions;
    this.#containers = containers ?? this.#containers;
    if (silent) setText(byId("processes-silent"), silent.map((why) => `${plain(why)}; its containers are not listed.`).join(" "));
    this.#show(join(this.#sessions, this.#containers));
  }

  /** @param {ShownSession[]} all */
  #show(all) {
    let [room, roomInContainers] = [LISTED, LISTED_CONTAINERS];
    const sorted = [...all.filter(left), ...all.filter((session) => !left(session))];
    this.#shown = sorted.map((session) => {
      const listed = session.processes.slice(0, room);
      const containers = session.containers.slice(0, roomInContainers);
      room -= listed.length;
      roomInContainers -= containers.length;
      return { ...session, processes: listed, containers };
    });
    const isSeen = (/** @type {ShownSession} */ session) => session.processes.length + session.containers.length || !left(session);
    byId("processes-list").replaceChildren(...this.#shown.filter(isSeen).map(section));
    const orphans = total(all.filter(left));
    const kept = all.filter(left).flatMap((session) => session.processes.filter((process) => process.kept)).length;
    const [containers, leftContainers] = [all.flatMap((session) => session.containers), all.flatMap(leftIn)];
    const words = [
      `${processes(total(all))} of ${several(all.length, "session")}`,
      orphans ? `${count(orphans)} left by ended sessions` : null,
      kept ? `${count(kept)} of these kept` : null,
      containers.length ? `${several(containers.length, "container")}${leftContainers.length ? `, ${count(leftContainers.length)} left` : ""}` : null,
      orphans || leftContainers.length ? null : "nothing is left by ended sessions",
      total(all) > LISTED ? `only the first ${count(LISTED)} are listed` : null,
      containers.length > LISTED_CONTAINERS ? `only the first ${several(LISTED_CONTAINERS, "container")} are listed` : null,
    ];
    setText(byId("processes-summary"), words.filter(Boolean).join(" · "));
    const isLeft = orphans || leftContainers.length;
    setText(byId("totals-left"), isLeft ? ` · ${things(orphans, leftContainers)} left (${moment(pageNow())})` : "");
    this.end.disabled = !this.#shown.some(isToEnd);
  }

  /** Ends what the question named. */
  async #order() {
    const [meant, contained] = [this.#shown.filter((session) => free(session).length), this.#shown.flatMap(leftIn)];
    const sessions = meant.map((session) => ({ mark: session.mark, processes: free(session).map(({ pid, start }) => ({ pid, start })) }));
    const containers = contained.map(({ mark, container }) => ({ mark, container }));
    this.#to("end");
    const { reply, error } = await send("processes/reap", { sessions, containers });
    if (error === null) this.#tell(reply, meant.flatMap(free), contained);
    setText(byId("processes-note"), error === null ? "" : `Not ended: ${error}`);
    this.#to("look");
  }

  /**
   * Lists how each one ended.
   * @param {{ processes: LedgerReaped[], containers: LedgerReapedContainer[] }} reply
   * @param {LedgerProcess[]} meant @param {LedgerContainer[]} contained
   */
  #tell(reply, meant, contained) {
    const known = new Set(reply.processes.map(({ pid, start }) => `${pid} ${start}`));
    const before = meant.filter(({ pid, start }) => !known.has(`${pid} ${start}`));
    const ended = [...reply.processes, ...before.map((process) => ({ ...process, ended: true, how: "not found: it has ended by itself, or is kept now" }))];
    const endedIn = contained.map((one) => {
      const receipt = reply.containers.find(({ mark, container }) => mark === one.mark && container === one.container);
      return { ...one, ...(receipt ?? { ended: true, how: "not found: it has ended by itself" }) };
    });
    byId("processes-ended").replaceChildren(
      ...ended.map((process) => receiptLine({ pid: String(process.pid) }, `${process.pid} ${program(process)}`, process)),
      ...endedIn.map((one) => receiptLine({ container: one.container }, containerName(one), one)),
    );
    const gone = (/** @type {{ ended: boolean }} */ one) => one.ended;
    const resist = [...ended, ...endedIn].filter((one) => !one.ended).length;
    this.say(`${things(ended.filter(gone).length, endedIn.filter(gone))} ended${resist ? `, ${count(resist)} not ended` : ""}`);
  }
}

/** Sessions with their containers. Of some nothing else is left. @param {LedgerSession[]} sessions @param {LedgerContainer[]} containers */
function join(sessions, containers) {
  const joined = new Map(sessions.map((session) => [session.mark, /** @type {ShownSession} */ ({ ...session, containers: [] })]));
  for (const container of containers) {
    const { session, mark, left } = container;
    const of = joined.get(mark) ?? { session, mark, shim: { pid: 0, alive: !left }, processes: [], containers: [] };
    of.containers.push(container);
    joined.set(mark, of);
  }
  return [...joined.values()];
}

/** So many processes and these containers. @param {number} n @param {LedgerContainer[]} containers */
function things(n, containers) {
  const own = containers.filter((container) => container.image !== undefined).length;
  const others = containers.length - own;
  const words = [
    n || !containers.length ? processes(n) : null,
    own ? several(own, "container") : null,
    others ? `what exec started in ${several(others, "container")}` : null,
  ].filter(Boolean);
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words.join("");
}

/** @param {LedgerContainer} container */
const containerName = ({ container, name, image }) =>
  image === undefined ? `started by exec in container ${plain(container, 40)}` : `container ${plain(container.slice(0, 12))} ${plain(name ?? "", 80)} (${plain(image, 80)})`;

/** @param {Record<string, string>} which @param {string} words @param {{ ended: boolean, how: string }} receipt */
function receiptLine(which, words, { ended, how }) {
  const line = element("li", "", ended ? "is-confirmed" : "is-stuck");
  Object.assign(line.dataset, which);
  line.append(element("span", words), element("strong", `${ended ? "✓" : "▲"} ${plain(how)}`));
  return line;
}

/** @param {string} name @param {string} text @param {string} [style] */
function element(name, text, style = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (style) made.className = style;
  return made;
}

/** A session with the tree of its processes, and its containers. @param {ShownSession} session @param {number} index */
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
  tbody.append(...session.processes.map((process) => row(session, process)), ...session.containers.map(containerRow));
  table.append(thead, tbody);
  made.append(title, element("p", about(session), "note"));
  if (session.processes.length + session.containers.length) made.append(table);
  return made;
}

/** @param {ShownSession} session */
function about({ shim, client, processes: list, containers }) {
  if (!shim.alive) return `▲ ended; it has left ${things(list.length, containers)}`;
  if (!client) return "running; its client is unknown";
  const name = `${plain(client.name, 40)} (${client.pid})`;
  return client.alive ? `running; client: ${name}` : `running; its client has ended: ${name}`;
}

/** @param {LedgerSession} session @param {LedgerProcess} process */
function row(session, process) {
  const made = element("tr", "");
  made.dataset.pid = String(process.pid);
  const state = [left(session) ? "left" : null, process.stopped ? "stopped" : null, left(session) && process.kept ? KEPT[process.kept] : null];
  fill(made, process.depth, [
    program(process), String(process.pid), duration(process.age), process.cpu ? duration(process.cpu) : "0 s", bytes(process.memory),
    state.filter(Boolean).join(", "),
  ]);
  return made;
}

/** @param {LedgerContainer} container */
function containerRow(container) {
  const made = element("tr", "");
  made.dataset.container = container.container;
  const state = container.left ? `left, ${container.state ?? "unknown"}` : container.state ?? "";
  fill(made, 0, [containerName(container), "", "", "", "", plain(state, 40)]);
  return made;
}

/** @param {HTMLElement} row @param {number} depth @param {string[]} texts */
function fill(row, depth, texts) {
  const cells = texts.map((text, column) => element("td", text, column ? "num" : "mono"));
  cells[0].style.setProperty("--depth", String(depth));
  row.append(...cells);
}

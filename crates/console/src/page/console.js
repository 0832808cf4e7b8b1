// @ts-check
// The page of the console. It reads one event stream, keeps a bounded copy of the state, and draws it at most once a frame.

import { Details } from "./details.js";
import { End } from "./end.js";
import { follow } from "./feed.js";
import { Filter, controls } from "./filter.js";
import { Frames } from "./frames.js";
import { keys } from "./keys.js";
import { Past } from "./past.js";
import { Processes } from "./processes.js";
import { EVENTFUL_MOST, OPEN_MOST, OVER_MOST, PLAIN_MOST, Store } from "./store.js";
import { Stop } from "./stop.js";
import { Table } from "./table.js";
import { Timeline } from "./timeline.js";
import { byId, count, label, plain, setText, several } from "./words.js";

/** Microseconds between two drawings of the table while only the time changes, and between two announcements. */
const TABLE_EVERY = 250_000;
const SAY_EVERY = 1_000_000;

const store = new Store();
const filter = new Filter();
const frames = new Frames();
let urgent = true;
const changed = () => {
  urgent = true;
};

/** @type {(uid: string) => [string, string] | null} */
const parse = (uid) => {
  // A key has no slash, but a session's name may.
  const session = [...store.sessions.keys()].find((name) => uid.startsWith(`${name}/`) && store.find(name, uid.slice(name.length + 1)));
  return session === undefined ? null : [session, uid.slice(session.length + 1)];
};
const open = (/** @type {string | null} */ uid, toCancel = false) => {
  const found = uid && parse(uid);
  if (found) details.open(...found, toCancel);
};

const chips = controls(filter, store, () => {
  timeline.anew();
  past.redraw();
  changed();
});
const past = new Past(store, filter, (uid) => open(uid));
const table = new Table(store, filter, { open, cancel: (uid) => open(uid, true) });
const end = new End(store);
const timeline = new Timeline(store, filter, {
  pick: (uid) => {
    table.current = uid;
    open(uid);
  },
  end: (session) => end.open(session),
  // Its button is gone, and the focus must be somewhere.
  dismissed: () => table.focus(),
});
const details = new Details(store, {
  changed: () => {
    cover();
    timeline.picked = details.uid;
    timeline.redraw();
    table.pick(details.uid);
  },
  focus: () => table.focus(),
});

// Where the details lie over everything else, that cannot be reached behind them.
const covers = matchMedia("(max-width: 56rem)");
const cover = () => {
  for (const node of [document.querySelector("main"), document.querySelector("header")]) if (node) node.inert = covers.matches && details.uid !== null;
};
covers.addEventListener("change", cover);

function pause() {
  store.setPaused(store.pause === null);
  byId("pause").setAttribute("aria-pressed", String(store.pause !== null));
  setText(byId("pause"), store.pause ? "Resume" : "Pause");
  byId("paused").hidden = store.pause === null;
  say(store.pause ? "Paused" : "Resumed");
  changed();
}

function help() {
  setText(byId("help-bounds"), bounds());
  /** @type {HTMLDialogElement} */ (byId("help")).showModal();
}

const bounds = () =>
  `Of each session the page keeps at most ${count(OPEN_MOST)} requests in flight and the last ${count(PLAIN_MOST + EVENTFUL_MOST)} ended ones (${count(EVENTFUL_MOST)} of them with an error, a cancel or a late message); others are only counted. The last ${count(OVER_MOST)} ended sessions stay listed.`;

/** An action that does nothing where all is recorded. @param {() => void} action */
const live = (action) => () => {
  if (!store.isRecorded) action();
};

keys({
  next: () => table.move(1),
  previous: () => table.move(-1),
  first: () => table.moveTo(false),
  last: () => table.moveTo(true),
  open: () => open(table.current),
  cancel: live(() => open(details.uid ?? table.current, true)),
  close: () => details.close(),
  search: () => byId("search").focus(),
  pause: live(pause),
  stop: live(() => stop.open()),
  processes: live(() => processes.open()),
  help,
  nearer: () => timeline.zoom(0.5),
  farther: () => timeline.zoom(2),
  earlier: () => timeline.pan(-timeline.span / 4),
  later: () => timeline.pan(timeline.span / 4),
  follow: () => timeline.follow(),
});
byId("pause").addEventListener("click", pause);
byId("help-open").addEventListener("click", help);
for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-copy]"))) {
  button.addEventListener("click", async () => {
    const done = await navigator.clipboard.writeText(button.dataset.copy ?? "").then(() => "Copied", () => "Could not copy");
    setText(button, done);
    say(done);
  });
}
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  table.focus();
});

// Announcements to screen readers: cancels by operators and of the open request, what is stuck, and what was ordered; at
// most one a second.
/** @type {string[]} */
let waiting = [];
let unsaid = 0;
let announcedAt = -Infinity;
const say = (/** @type {string} */ text) => {
  unsaid += 1;
  waiting = [...waiting.slice(-2), text];
};
const stop = new Stop(store, filter, say);
const processes = new Processes(say);
store.onCancel = (/** @type {PageRequest} */ request) => {
  const { cancel } = request;
  if (!cancel || (cancel.cause !== "operator" && request.uid !== details.uid)) return;
  const words = plain(cancel.words);
  say(`Cancel of ${label(request)} ${plain(request.name || request.method, 60)}: ${words}`);
};
/** @param {number} now */
function announce(now) {
  if (!unsaid) return;
  const region = byId("announce");
  // What lies behind an open dialog is not read.
  const host = document.querySelector("dialog[open]") ?? document.body;
  if (region.parentNode !== host) host.append(region);
  else if (now - announcedAt >= SAY_EVERY) {
    announcedAt = now;
    setText(region, unsaid > waiting.length ? `${count(unsaid)} changes; the last: ${waiting.at(-1)}` : waiting.join(". "));
    [waiting, unsaid] = [[], 0];
  }
}

/** How many were stuck when that was said. */
let stuckSaid = 0;

function totals() {
  const shown = store.all();
  const live = shown.filter((session) => !session.isOver);
  let [stuck, cancelling, released] = [0, 0, 0];
  for (const session of live) {
    released += session.released.size;
    for (const { state } of session.open.values()) {
      if (state === "stuck") stuck += 1;
      else if (state === "cancelling") cancelling += 1;
    }
  }
  const inFlight = live.reduce((sum, session) => sum + session.inFlight, 0);
  const ended = shown.filter((session) => session.hasEnded).length;
  const unknown = shown.length - live.length - ended;
  if (stuck > stuckSaid) say(`${several(stuck, "request is", "requests are")} stuck`);
  stuckSaid = stuck;
  const words = [
    live.length || unknown ? several(live.length, "session") : "nothing is running", ended ? `${count(ended)} ended` : null, unknown ? `${count(unknown)} without news` : null,
    live.length || unknown ? `${count(inFlight)} ${unknown ? "known to be in flight" : "in flight"}` : null,
    cancelling ? `${count(cancelling)} cancelling` : null, released ? `${count(released)} released` : null,
  ];
  const summary = store.isRecorded ? several(shown.length, "recording") : words.filter(Boolean).join(" · ");
  setText(byId("totals-calm"), shown.length ? summary : "");
  setText(byId("totals-stuck"), stuck ? ` · ${count(stuck)} stuck` : "");
  document.title = stuck ? `(${stuck} stuck) Rescind` : inFlight ? `(${inFlight}) Rescind` : "Rescind";
  if (store.pause) setText(byId("paused"), `Paused: ${several(store.pause.changes, "change")} since then. Details and cancels stay live.`);
}

/** Explains why no session is shown, and names sessions that cannot be shown. It claims no more than the console knows. */
function absence() {
  const { fleet } = store;
  const silent = Object.entries(fleet?.silent ?? {}).map(([name, why]) => `${plain(name)}: ${plain(why)}.`);
  const unused = (fleet?.unused ?? []).map((why) => `${plain(why)}; not used.`);
  const none = store.shown().length === 0 && silent.length === 0;
  const known = fleet?.pending === 0;
  byId("looking").hidden = !none || known;
  byId("empty").hidden = !none || !known || store.isRecorded;
  setText(byId("empty-title"), store.sessions.size ? "Nothing is running now" : "No sessions yet");
  byId("dismissed").hidden = !none || !store.isRecorded;
  document.body.classList.toggle("is-recorded", store.isRecorded);
  const notes = silent.length ? [...silent, "Their requests are not shown."] : [];
  setText(byId("unheard"), [...notes, ...unused].join(" "));
  byId("unheard").hidden = silent.length + unused.length === 0;
}

let drawnVersion = -1;
let drawnAt = -Infinity;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let movedAt = -Infinity;

/** @param {number} stamp */
function draw(stamp) {
  // First, so that an exception in one frame does not stop the next.
  requestAnimationFrame(draw);
  const begun = performance.now();
  const now = stamp * 1e3;
  // With reduced motion the timeline moves in steps.
  if (!calm.matches || urgent || timeline.isDue || now - movedAt >= 2 * TABLE_EVERY) {
    movedAt = now;
    timeline.frame(now);
  }
  absence();
  const ticking = now - drawnAt >= TABLE_EVERY;
  if (urgent || ticking) {
    if (urgent || drawnVersion !== store.version || !store.pause) {
      table.render();
      chips(table.states);
      past.render();
    }
    details.render();
    stop.render();
    end.render();
    totals();
    drawnVersion = store.version;
    drawnAt = now;
    urgent = false;
  }
  announce(now);
  frames.drawn(stamp, performance.now() - begun);
}

follow(store, byId("lost"));
requestAnimationFrame(draw);

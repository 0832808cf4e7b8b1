// The types of the page. Only the checker reads this file (peers/node/page); the page does not load it.
// What begins with `Feed` is the JSON of crates/feed: its documentation is there.

type Side = "client" | "server";
/** One of queued, running, cancelling, stuck, answering, released and ended, or a word of a later shim. */
type State = string;

interface FeedCancel {
  cause: string;
  reason?: string;
  asked: number;
  written?: number;
  /** asked, never_sent, not_sendable, sent, confirmed, completed_first, answered_after, unknown, or a word of a later shim. */
  outcome: string;
  after?: number;
  answer?: "result" | "error";
  confirms: boolean;
  /** It waits for the id of the task that the request becomes. */
  held?: true;
  /** How the task ended that the request waited for: nothing of it goes on. */
  waitedFor?: "cancelled" | "over";
  protocol: string;
  worksOn: boolean;
  words: string;
}

interface FeedProgress {
  at: number;
  count: number;
  progress?: number;
  total?: number;
  message?: string;
}

interface FeedSettled {
  at: number;
  /** result, error, answered_here, silent, gone, or a word of a later shim. */
  how: string;
  code?: number;
}

interface FeedRequest {
  key: string;
  from: Side;
  id: string;
  upstream?: string;
  method: string;
  name?: string;
  parent?: string;
  /** The request that opened it, also once that has ended. */
  openedBy?: string;
  since: number;
  heldUntil?: number;
  state: State;
  waitsForTurn?: true;
  /** Its client waits for the agent to end the cancelled turn: one more order ends that. */
  mayBeReleased?: true;
  deadline?: number;
  progress?: FeedProgress;
  task?: string;
  cancel?: FeedCancel;
  settled?: FeedSettled;
  late?: { at: number; answers: number; notices: number };
  /** What makes it a child: a session that the agent opened for a part of the work. */
  child?: { parentSession: string; state: string; canCancel: boolean; reported: number };
  /** What makes it a task at work: the status that its server reported last, and when. */
  atWork?: { status: string; reported: number };
  /** The console adds it. */
  work?: FeedWork;
}

/** What a receipt means for the work, in words of `rescind_feed::WorkStatus` (crates/console/src/server/work.rs). */
interface FeedWork {
  awaited: string;
  last: string;
  remark: string;
}

interface FeedImplementation {
  protocol: string;
  name?: string;
  version?: string;
}

interface FeedSession {
  version: number;
  name: string;
  program: string;
  pid: number;
  ancestors: number[];
  serverPid: number | null;
  command: string[];
  /** What the client's configuration calls it, and the client. */
  entry?: string;
  clientName?: string;
  /** The directory in which the shim was started. */
  folder?: string;
  started: number;
  client: FeedImplementation;
  server: FeedImplementation;
  connected?: FeedConnected;
  owner?: string;
  signingIn?: boolean;
  /** Limits as they were given, and how many requests each has refused. */
  limits?: Record<string, number>;
  heldUpBy?: Side;
  /** How often there was more work, or a task, than the shim follows: not all is listed. */
  unkeptChildren?: number;
  unkeptTasks?: number;
  unkeptReleased?: number;
  /** Relates the session's clock to the start of processes. */
  processClock?: { origin: number; slept?: number };
  turnProcesses?: { request: string; pid: number; name: string; ended: boolean; how: string }[];
  endingTurns?: string[];
  restarts?: { count: number; last: number };
  restarting?: boolean;
  /** Since when its client, greeted from the cache, waits for a server that has not started. */
  starting?: number;
  /** An agent does not list all of its background work. */
  hidesWork?: boolean;
}

interface FeedConnected {
  sessions: number;
  responses: number;
  kept: number;
  keptBytes: number;
  restarts: number;
}

type FeedEnd = { exitCode: number } | { signal: number } | "unknown";

interface FeedSnapshot {
  seq: number;
  now: number;
  session: FeedSession;
  requests: FeedRequest[];
  inFlight: number;
}

interface FeedChanges {
  seq: number;
  now: number;
  requests: FeedRequest[];
  brief: number;
  inFlight: number;
  session?: FeedSession;
}

interface FeedEnded {
  seq: number;
  now: number;
  how: FeedEnd;
}

interface FeedFrame {
  at: number;
  from: Side;
  text: string;
  length: number;
  byShim?: boolean;
}

interface FeedDetails {
  request: FeedRequest;
  frames: FeedFrame[];
  keptSince: number | null;
  arguments?: FeedArguments;
}

interface FeedArguments {
  text: string;
  length: number;
  cut?: true;
  leftOut?: true;
}

/** What the console knows of the sessions beyond their events (crates/console/src/server/events.rs). */
interface Fleet {
  pending: number;
  silent: Record<string, string>;
  unused: string[];
  recorded?: boolean;
}

/** What begins with `Ledger` is the JSON of crates/ledger/src/document.rs. */
interface LedgerSession {
  session: string;
  mark: string;
  shim: { pid: number; alive: boolean };
  client?: { pid: number; name: string; alive: boolean };
  command?: string[];
  started?: number;
  processes: LedgerProcess[];
}

interface LedgerProcess {
  pid: number;
  start: number;
  parent: number;
  depth: number;
  name: string;
  arguments: string[];
  age: number;
  cpu: number;
  memory: number;
  stopped: boolean;
  kept?: "terminal" | "ancestor";
  /** During which requests it began, if its shim was asked. */
  began?: { when: "during" | "one_of" | "perhaps" | "outside" | "unknown"; requests?: string[] };
}

interface LedgerContainer {
  session: string;
  mark: string;
  engine: string;
  container: string;
  left: boolean;
  /** Only a container of the session's own has these. */
  name?: string;
  image?: string;
  state?: string;
}

interface LedgerReapedContainer {
  mark: string;
  container: string;
  ended: boolean;
  how: string;
}

interface LedgerReaped {
  pid: number;
  start: number;
  name: string;
  arguments: string[];
  ended: boolean;
  how: string;
}

/** A session as the page lists it. */
interface ShownSession extends LedgerSession {
  containers: LedgerContainer[];
}

/** A request as the page keeps it. */
interface PageRequest extends FeedRequest {
  of: import("./store.js").Session;
  uid: string;
  /** Its text for the search, made once. */
  searched?: string;
}

/** What the words for a state need of a request. */
type Shown = FeedRequest & { of: { isOver: boolean; facts: FeedSession } };

/** Whether the work on a request has stopped. */
interface Work {
  text: string;
  glyph: string;
  tone: string;
  /** It would not stop. */
  resists: boolean;
  words: string;
}

/** One step of a history. */
interface Step {
  at: number;
  text: string;
}

/** A span of the timeline on the page's clock. */
interface Sight {
  from: number;
  until: number;
}

/** An element that remembers what it shows. */
type Signed = HTMLElement & { sign?: string };

/** An element that remembers where it is. */
type Placed = HTMLElement & { isOut?: boolean; x?: number; w?: number; room?: number };

/** A row of the table, with its cells. */
type Row = HTMLTableRowElement & {
  request?: PageRequest;
  over?: boolean;
  current?: boolean;
  meter: HTMLElement;
  depth?: number;
  /** Which operator stopped it. */
  stopper?: string | null;
  cells_: Record<"session" | "method" | "state" | "progress" | "cancel", HTMLElement[]> &
    Record<"id" | "from" | "age" | "deadline", HTMLElement>;
};

// The tables of the storage, as data: every storage creates the same tables, with one column for each part of the key,
// so that range queries use the primary key. Each row also has a tag, an expiry and a value; `values.ts` has the types
// of the values.
//
// All work that a process may have to do later is in one table, the index of work (`work`), with the time in its key
// before the session. A scan for due work costs what is due and not what is stored.

/** A column of a primary key. */
export type Column = { readonly name: string; readonly type: "text" | "integer" };

/** The name of a table. */
export type TableName = keyof typeof tables;

/** The name of a table that a database has until it is finalized. */
export type FormerTable = keyof typeof formerTables;

const text = (name: string): Column => ({ name, type: "text" });
const integer = (name: string): Column => ({ name, type: "integer" });

const session = [text("tenant"), text("session")] as const;
const turn = [...session, text("turn")] as const;

/** The tables of this release, and the columns of their keys. */
const currentTables = {
  /** The session row: the session without its messages. The tag is the version of the session. */
  sessions: session,
  /**
   * Index of sessions by the time of their last change, for `list`. The steps of a turn do not move a session. The
   * value is empty.
   */
  recent: [text("tenant"), integer("changed"), text("session")],
  /**
   * Index of the sessions that wait for a person (`waiting`) and of those whose turn is parked (`parked`), by the time
   * of their last change, for `list` with a status. The value is empty.
   */
  attention: [text("tenant"), text("status"), integer("changed"), text("session")],
  /** Messages of the history, one row each, append-only. */
  entries: [...session, integer("position")],
  /**
   * Frames, by the number of messages that they stand for in requests. They are entries beside the messages: the
   * history stays whole.
   */
  frames: [...session, integer("position")],
  /** The lease of a session: which process may write to it. The tag is the fencing token, which never decreases. */
  leases: session,
  /** The open turn of a session, its engine, and the time of its row in `work`. A parked turn has no row here. */
  open: session,
  /**
   * The index of work (`rows/work.ts`): what a process has to do at a time or when a slot is free. `reason` says what,
   * `queue` for which engine or limit. The lanes of a queue are served round robin. The value is empty, or names the
   * turn.
   */
  work: [text("reason"), text("queue"), text("lane"), integer("at"), text("tenant"), text("session"), text("item")],
  /**
   * Slots of limits (`limits.ts`): `concurrency` slots are held until the turn ends, `rate` slots until they expire. A
   * slot without a row is free. The value names the turn that took it. The row `copied` of a tenant counts what its
   * forks copy (`copy-quota.ts`): the tag is a number of characters.
   */
  slots: [text("scope"), text("kind"), integer("number")],
  /** The input and options that a turn was accepted with. Written once. */
  starts: turn,
  /** Index of the turns of a session by the time of their acceptance. The value is empty. */
  turn_times: [...session, integer("accepted"), text("turn")],
  /** The progress of a turn. The tag is the number of its commits. */
  turns: turn,
  /** Pinned configurations of turns, content-addressed and shared by all sessions of a tenant. */
  contents: [text("tenant"), text("digest")],
  /** The journal, the write-ahead log of a turn: the items it accepted, in order. */
  journal: [...turn, integer("ordinal")],
  /** Records inside effects: attempts, delays, child turns, start marks of tools (Q2, Q3). */
  records: [...turn, text("effect"), text("name")],
  /** Input that waits for a checkpoint or for the next turn, in order of arrival. */
  inbox: [...session, integer("position")],
  /** A counter for each session: the tag is the number of inputs it has had, which a batch can check. */
  inboxes: session,
  /** Idempotency keys of verbs and inputs, with a digest of what was accepted under each. */
  accepted: [...session, text("key")],
  /** Cancel commands that are not settled yet (H6). */
  cancels: turn,
  /** The event log of a session, by sequence number. */
  events: [...session, integer("sequence")],
  /** Text of replies that are not settled yet, for readers in other processes. */
  pieces: [...turn, integer("position")],
  /**
   * Large texts of a session's rows, content-addressed (`large-values.ts`), and replies that a response cache has
   * stored for its turns, by name.
   */
  large: [...session, text("digest")],
  /** The ledger: one line for each cost. */
  ledger: [...turn, text("line")],
  /** Capability tokens that complete a pending call, by the digest of the token. */
  tokens: [text("digest")],
  /**
   * Rows that middleware of several processes share: the places of cached replies and the windows of rate limits.
   * `period` groups rows that expire at about the same time, so that old ones are found without a scan. The runtime
   * does not read them.
   */
  shared: [text("scope"), integer("period"), text("key")],
  /**
   * The sums of one turn that has ended or was parked, until they are folded into `rollups`. `period`: the start of its
   * five minutes.
   */
  rollup_lines: [integer("period"), text("tenant"), text("line")],
  /**
   * Sums over ended turns (`rollup.ts`), for the overview. `length` and `period`: the length of the period and its
   * start, in milliseconds. `scope`: a tenant, or all tenants. The tag counts the folds.
   */
  rollups: [integer("length"), integer("period"), text("scope")],
  /** API keys by id (`serve/http/keys.ts`). The value has the digest of the secret. The row expires with the key. */
  keys: [text("id")],
  /** The audit log, append-only (`audit.ts`). `at`: the time of the storage, in milliseconds. */
  audit: [integer("at"), text("id")],
} as const satisfies { readonly [name: string]: readonly Column[] };

/**
 * The tables that `work` replaces. Processes write the same rows to them until the database is finalized, for processes
 * of the release before (`format.ts`). Afterwards they are empty.
 */
const formerTables = {
  /** Open turns by engine, tenant and due time. */
  due: [text("engine"), text("tenant"), integer("due"), text("session")],
  /** Open turns that wait for a limit, by the scope of the limit. */
  waiting: [text("scope"), text("tenant"), integer("since"), text("session")],
  /** Deadlines of pending calls. */
  deadlines: [integer("due"), ...session, text("call")],
  /** Ended turns by the end of their retention time. */
  retained: [integer("due"), ...turn],
} as const satisfies { readonly [name: string]: readonly Column[] };

/**
 * The tables that a storage stores, and the columns of their keys. Each row also has a tag, an expiry and a value.
 * Exported as `storageTables`.
 */
export const tables = { ...currentTables, ...formerTables } as const;

/**
 * Tables whose rows are deleted with their session: every table whose key begins with tenant and session. Two rows
 * outlive the session: the session row becomes a tombstone, and the lease row keeps the fencing token, so that an old
 * holder stays fenced.
 */
export const tablesOfSession: readonly TableName[] = tableNames().filter((name) => {
  const [first, second]: readonly Column[] = tables[name];
  return first === session[0] && second === session[1] && name !== "sessions" && name !== "leases";
});

/** The names of the tables that a database has until it is finalized. */
export const formerTableNames: readonly FormerTable[] = ["due", "waiting", "deadlines", "retained"];

/** The names of all tables. */
export function tableNames(): readonly TableName[] {
  const isTable = (name: string): name is TableName => Object.hasOwn(tables, name);
  return Object.keys(tables).filter(isTable);
}

// The tables a host keeps. They are data, so that every host makes the same ones, with real columns for what rows are found by.

/** A column of a key. */
export type Column = { readonly name: string; readonly type: "text" | "integer" };

export type TableName = keyof typeof tables;

const text = (name: string): Column => ({ name, type: "text" });
const integer = (name: string): Column => ({ name, type: "integer" });

const session = [text("tenant"), text("session")] as const;
const turn = [...session, text("turn")] as const;

/**
 * The tables that a host stores, and the columns of their keys. Each row also has a tag, an expiry and a value.
 * Exported as `storageTables`.
 */
export const tables = {
  /** The head of a session: all of it but its messages. The tag is its version. */
  sessions: session,
  /** Sessions by when they last changed. */
  recent: [text("tenant"), integer("changed"), text("session")],
  /** What was said, one row a message, only ever added to. */
  entries: [...session, integer("position")],
  /** Who may write to a session. The tag is the fencing epoch, and never falls. */
  leases: session,
  /** The open turn of a session, its engine, and where it stands in `due`. */
  open: session,
  /** Open turns by engine, tenant and the time at which a worker looks at them: when they become free, as far as that was known. */
  due: [text("engine"), text("tenant"), integer("due"), text("session")],
  /** What a turn was accepted with: never changes. */
  starts: turn,
  /** How far a turn has got. The tag counts its commits. */
  turns: turn,
  /** What turns are pinned to, by content. */
  contents: [text("tenant"), text("digest")],
  /** The journal: what a turn accepted, in order. */
  journal: [...turn, integer("ordinal")],
  /** What performers wrote down inside an effect. */
  records: [...turn, text("effect"), text("name")],
  /** What was said to a session while a turn ran. */
  inbox: [...session, integer("position")],
  /** How many inputs a session has had. The tag is that number. */
  inboxes: session,
  /** What was accepted under a key the caller gave: the same key is accepted once. */
  accepted: [...session, text("key")],
  /** That a turn is to stop. */
  cancels: turn,
  /** What readers are told, in order. */
  events: [...session, integer("sequence")],
  /** What has been heard of replies that are not settled yet, for readers elsewhere. */
  pieces: [...turn, integer("position")],
  /** Large texts of a session's rows, by digest (`large-values.ts`). */
  large: [...session, text("digest")],
  /** What was paid for, a line each. */
  ledger: [...turn, text("line")],
  /** Waits that end by themselves, by when they do. */
  deadlines: [integer("due"), ...session, text("call")],
  /** Journals of turns that have ended, by when they may go. */
  retained: [integer("due"), ...turn],
  /** Capabilities for completion from outside, by digest. */
  tokens: [text("digest")],
} as const satisfies { readonly [name: string]: readonly Column[] };

/**
 * Tables whose rows are deleted with their session: every table whose key begins with tenant and session. Two rows outlive the session: the session
 * row becomes a tombstone, and the lease row keeps the fencing epoch.
 */
export const tablesOfSession: readonly TableName[] = tableNames().filter((name) => {
  const [first, second] = tables[name];
  return first === session[0] && second === session[1] && name !== "sessions" && name !== "leases";
});

function tableNames(): readonly TableName[] {
  const isTable = (name: string): name is TableName => Object.hasOwn(tables, name);
  return Object.keys(tables).filter(isTable);
}

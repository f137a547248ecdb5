// The connection that a storage keeps for itself: notifications of writes, and the lock that shows that this process
// lives.
//
// Notifications
//   After a commit the names of the sessions and tables that were written are collected, and sent (NOTIFY) outside of
//   the transaction, at most once every `sendMs` for each process. A notification inside the transaction would make all
//   commits of the database wait for each other (Postgres serializes the commits of transactions that notify). A
//   notification is a hint. It is lost if the sender is killed after the commit, and while this process is not
//   connected. So the storage also polls while it is watched, and every reconnection counts as a write.
//
// Ended processes
//   The connection holds an advisory lock for the identity of this process. The server releases it when the connection
//   ends, which for a killed process is at once. Another process that wants to know tries to take the lock, every
//   `probing.everyMs`. If every attempt over `endedAfterMs` succeeds, the process counts as ended. The interval covers
//   a connection that was lost and is opened again at once. A process that lives, but cannot reach the server for
//   longer, is treated like one whose lease has expired: it is fenced by the epoch. Attempts run over the kept
//   connection itself. If it is lost, the server may have restarted, which releases all locks: nothing that was
//   observed before counts, and the other processes get one interval to connect again before their locks are tried. All
//   of this needs a session of the server that belongs to this process alone. Behind a transaction pooler that the
//   options do not declare there is none (`pooler.ts`): the storage is refused. Processes are known by their leases
//   (`hasEnded`) and by their notifications, so a process that has held its leases for a moment only is recognised,
//   too.

import type { RuntimeError } from "../../../core/model/internal.ts";
import type { Batch, Liveness, TableName } from "../../rows/internal.ts";
import type { WrittenNames } from "../shared/watchers.ts";
import type { PostgresConnection, PostgresResult, PostgresStatement } from "./client.ts";
import type { Database } from "./database.ts";
import type { CheckedOptions } from "./options.ts";

import { randomUUID } from "node:crypto";

import { monotonicNow } from "../../../core/clock/clock.ts";
import { startInterval, startTimer } from "../../../core/clock/timer.ts";
import { tables } from "../../rows/internal.ts";
import { isRenewal, namesOf, union, unknownWrite } from "../shared/watchers.ts";
import { sessionOf, sessionSql, undeclaredPooler } from "./pooler.ts";
import { textColumn } from "./schema.ts";

/** The shortest time between two notifications of one process, in milliseconds. */
const sendMs = 25;
/** Postgres limits a payload to less than 8,000 bytes. */
const maxPayloadBytes = 7_500;
/** The default of `pollMs`, beside notifications and without them. */
const defaultPollMs = { withNotifications: 5_000, without: 100 };
/** The pause before the connection is opened again, if the first attempt, which is made at once, has failed. */
const reconnectMs = 100;
/**
 * How often the locks of other processes are tried, and how long after the last question about a process or its last
 * notification.
 */
const probing = { everyMs: 100, forMs: 10_000 };

/** Another process whose lock is tried. Times are on the monotonic clock. */
type OtherProcess = {
  /** When it was last asked about, or has notified. */
  usedAt: number;
  /** Since when its lock is free; `null`: it was held, or it is not known yet. */
  freeSince: number | null;
  /** Its lock has been free for `endedAfterMs`. */
  hasEnded: boolean;
};

export class ProcessConnection {
  /** `null`: processes cannot be recognised on this database. */
  readonly liveness: Liveness | null;
  /** Notifications that were sent and received. */
  sent = 0;
  received = 0;
  readonly #database: Database;
  readonly #options: CheckedOptions;
  readonly #onWrite: (written: WrittenNames) => void;
  readonly #identity = randomUUID();
  /** The name of the installation: schema and prefix. */
  readonly #scope: string;
  readonly #canNotify: boolean;
  /** The client reports no notifications, so the connection is not kept. */
  #isDeaf = false;
  #connection: PostgresConnection | null = null;
  /** The session of the server that the connection has. */
  #session: string | null = null;
  /** A transaction pooler was found that the options do not declare. */
  #refusal: RuntimeError | null = null;
  #connecting: Promise<void> | null = null;
  /** The first attempt to connect. */
  #firstAttempt: Promise<void> | null = null;
  /** When the connection was lost, on the monotonic clock; `null`: it has never been open. */
  #lostAt: number | null = null;
  /** When the locks of other processes are tried at the earliest, on the monotonic clock. */
  #probesFrom = 0;
  /** The statements on the connection, which runs one at a time. */
  #lastStatement: Promise<unknown> = Promise.resolve();
  #isClosed = false;
  #watching = 0;
  #stopPolling: () => void = () => undefined;
  #lastSnapshot: string | null = null;
  /** What was written and not sent yet; `null`: nothing. */
  #unsent: { sessions: Set<string> | undefined; tables: Set<TableName> | undefined } | null = null;
  #sentAt = Number.NEGATIVE_INFINITY;
  #cancelSend: (() => void) | null = null;
  /** A notification is on its way. A connection runs one statement at a time. */
  #isSending = false;
  readonly #others = new Map<string, OtherProcess>();
  readonly #endedListeners = new Set<() => void>();
  #stopProbing: (() => void) | null = null;
  #isProbing = false;

  constructor(database: Database, options: CheckedOptions, onWrite: (written: WrittenNames) => void) {
    this.#database = database;
    this.#options = options;
    this.#onWrite = onWrite;
    this.#scope = `${options.schema}.${options.tablePrefix}`;
    this.#canNotify = options.mode === "function" && !options.transactionPooler;
    this.liveness = this.#canNotify && options.endedAfterMs !== null ? this.#liveness(options.endedAfterMs) : null;
  }

  /**
   * Waits for the first attempt to connect, so that leases are not claimed without an identity. Rejects only behind a
   * transaction pooler that is not declared.
   */
  async started(): Promise<void> {
    if (!this.#canNotify) return;
    await (this.#firstAttempt ??= this.start());
    if (this.#refusal !== null) throw this.#refusal;
  }

  /** Opens the connection. Does nothing if it is open, or if the database cannot notify. Never rejects. */
  start(): Promise<void> {
    if (this.#isClosed || !this.#canNotify || this.#isDeaf || this.#refusal !== null) return Promise.resolve();
    if (this.#connection !== null) return Promise.resolve();
    this.#connecting ??= this.#connect()
      .catch(() => undefined)
      .finally(() => {
        this.#connecting = null;
        if (this.#connection === null) this.#connectLater();
      });
    return this.#connecting;
  }

  async #connect(): Promise<void> {
    await this.#database.open();
    const connection = await this.#database.connect();
    if (connection.on === undefined) {
      connection.release();
      this.#isDeaf = true;
      if (this.#watching > 0) this.#startPolling();
      return;
    }
    const lost = () => this.#lost(connection);
    connection.on("error", lost);
    connection.on("end", lost);
    connection.on("notification", ({ payload }) => this.#receive(payload ?? ""));
    let session: string | null;
    try {
      session = await this.#sessionOf(connection);
      if (session === null) {
        this.#refuse();
        return connection.release();
      }
      await connection.query({ text: `LISTEN "${this.#scope}"`, values: [] });
      await connection.query({ text: `SELECT pg_advisory_lock(${lockSql("$1", "$2")})`, values: this.#lockOf() });
    } catch (error) {
      connection.release(true);
      throw error;
    }
    if (this.#isClosed) return connection.release(true);
    connection.unref?.();
    this.#connection = connection;
    this.#session = session;
    const { clock, endedAfterMs } = this.#options;
    // After a restart of the server the others connect again as this process does; until then their locks say nothing.
    this.#probesFrom = monotonicNow(clock) + (this.#lostAt === null ? probing.everyMs : (endedAfterMs ?? 0));
    this.#forgetProbes();
    // Writes of other processes may have been missed.
    this.#onWrite(unknownWrite);
  }

  async #sessionOf(connection: PostgresConnection): Promise<string | null> {
    const other = await this.#database.connect();
    try {
      const session = await sessionOf(connection, other);
      other.release();
      return session;
    } catch (error) {
      other.release(true);
      throw error;
    }
  }

  /**
   * Nothing that belongs to a session of the server is used any more, and leases are not read. Writes go on, so that
   * turns in flight can be committed.
   */
  #refuse(): void {
    this.#refusal = undeclaredPooler(this.#options.name);
    const connection = this.#connection;
    this.#connection = null;
    this.#forgetProbes();
    connection?.release(true);
    if (this.#watching > 0) this.#startPolling();
  }

  #lockOf(): string[] {
    return [this.#scope, this.#identity];
  }

  #lost(connection: PostgresConnection): void {
    if (this.#connection !== connection) return;
    this.#connection = null;
    this.#lostAt = monotonicNow(this.#options.clock);
    this.#forgetProbes();
    connection.release(true);
    if (this.#watching > 0) void this.start();
  }

  /** Runs a statement that selects `sessionSql` on the connection, after those before it. */
  async #query(connection: PostgresConnection, statement: PostgresStatement): Promise<PostgresResult> {
    const answered = this.#lastStatement.then(() => connection.query(statement));
    this.#lastStatement = answered.catch(() => undefined);
    const result = await answered;
    if (connection !== this.#connection || textColumn(result.rows[0], "session") === this.#session) return result;
    this.#refuse();
    throw undeclaredPooler(this.#options.name);
  }

  /** Opens the connection again after a pause, while something watches the storage. */
  #connectLater(): void {
    if (this.#isClosed || this.#watching === 0) return;
    startTimer(this.#options.clock, reconnectMs, () => void this.start());
  }

  /** Reports writes of other processes while it is active. Returns the function that ends it. */
  watch(): () => void {
    this.#watching += 1;
    if (this.#watching === 1) this.#startPolling();
    void this.start();
    return () => {
      this.#watching -= 1;
      if (this.#watching === 0) this.#stopPolling();
    };
  }

  #startPolling(): void {
    this.#stopPolling();
    const { clock, pollMs } = this.#options;
    const { withNotifications, without } = defaultPollMs;
    const defaultMs = this.#canNotify && !this.#isDeaf && this.#refusal === null ? withNotifications : without;
    this.#stopPolling = startInterval(clock, pollMs ?? defaultMs, () => void this.#poll());
  }

  /** Reports a write if any transaction of the database has written since the last poll. */
  async #poll(): Promise<void> {
    if (this.#options.mode === "transaction") return this.#onWrite(unknownWrite);
    try {
      const snapshot = await this.#database.run("read", async (connection) => {
        const text = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS snapshot";
        return textColumn((await connection.query({ text, values: [] })).rows[0], "snapshot");
      });
      if (snapshot === this.#lastSnapshot) return;
      this.#lastSnapshot = snapshot;
      this.#onWrite(unknownWrite);
    } catch {
      // The next operation of the storage reports why the server cannot be reached.
    }
  }

  /** Tells other processes what a batch has written, soon. */
  notify(batch: Batch): void {
    if (!this.#canNotify || this.#isClosed || isRenewal(batch)) return;
    const { sessions, tables: written } = namesOf(batch);
    const unsent = this.#unsent ?? { sessions: new Set<string>(), tables: new Set<TableName>() };
    this.#unsent = { sessions: union(unsent.sessions, sessions), tables: union(unsent.tables, written) };
    this.#sendSoon();
  }

  /** Sends what is unsent, as soon as `sendMs` have passed since the last notification and it was delivered. */
  #sendSoon(): void {
    if (this.#cancelSend !== null || this.#isSending) return;
    const { clock } = this.#options;
    const waitMs = Math.max(0, this.#sentAt + sendMs - monotonicNow(clock));
    this.#cancelSend = startTimer(clock, waitMs, () => void this.#send());
    void this.start();
  }

  async #send(): Promise<void> {
    const unsent = this.#unsent;
    this.#cancelSend = null;
    if (unsent === null) return;
    this.#unsent = null;
    this.#sentAt = monotonicNow(this.#options.clock);
    this.#isSending = true;
    const payload = encodePayload(this.#identity, unsent);
    const statement = { text: `SELECT pg_notify($1, $2), ${sessionSql}`, values: [this.#scope, payload] };
    this.sent += 1;
    try {
      await (this.#connection === null
        ? this.#database.run("read", (connection) => connection.query(statement))
        : this.#query(this.#connection, statement));
    } catch {
      // Other processes find the write by polling.
    } finally {
      this.#isSending = false;
    }
    if (this.#unsent !== null && !this.#isClosed) this.#sendSoon();
  }

  #receive(payload: string): void {
    const { from, written } = decodePayload(payload);
    if (from === this.#identity) return;
    this.received += 1;
    if (from !== null && this.#stopProbing !== null) this.#use(from);
    this.#onWrite(written);
  }

  #liveness(endedAfterMs: number): Liveness {
    const identityNow = () => (this.#hasIdentity(endedAfterMs) ? this.#identity : null);
    return {
      get process() {
        return identityNow();
      },
      hasEnded: (process) => {
        if (process === this.#identity) return false;
        this.#stopProbing ??= startInterval(this.#options.clock, probing.everyMs, () => void this.#probe(endedAfterMs));
        return this.#use(process).hasEnded;
      },
      onEnded: (ended) => {
        // A function of its own: the same callback may be registered twice.
        const listener = () => ended();
        this.#endedListeners.add(listener);
        return () => void this.#endedListeners.delete(listener);
      },
    };
  }

  /** A connection that was just lost is opened again within the time that others wait. */
  #hasIdentity(endedAfterMs: number): boolean {
    if (this.#isClosed || this.#refusal !== null) return false;
    if (this.#connection !== null) return true;
    return this.#lostAt !== null && monotonicNow(this.#options.clock) < this.#lostAt + endedAfterMs;
  }

  #use(process: string): OtherProcess {
    const other = this.#others.get(process) ?? { usedAt: 0, freeSince: null, hasEnded: false };
    other.usedAt = monotonicNow(this.#options.clock);
    this.#others.set(process, other);
    return other;
  }

  /** Nothing that was observed of other processes counts any more. */
  #forgetProbes(): void {
    for (const other of this.#others.values()) Object.assign(other, { freeSince: null, hasEnded: false });
  }

  /** Tries the locks of other processes. */
  async #probe(endedAfterMs: number): Promise<void> {
    const { clock } = this.#options;
    const now = monotonicNow(clock);
    for (const [process, { usedAt }] of this.#others) if (now > usedAt + probing.forMs) this.#others.delete(process);
    if (this.#isClosed || this.#others.size === 0) {
      this.#stopProbing?.();
      this.#stopProbing = null;
      return;
    }
    const connection = this.#connection;
    if (this.#isProbing || connection === null || now < this.#probesFrom) return;
    this.#isProbing = true;
    try {
      const asked = [...this.#others.keys()];
      const free = await this.#freeAmong(connection, asked);
      if (connection === this.#connection) this.#note(asked, free, endedAfterMs);
    } catch {
      this.#forgetProbes();
    } finally {
      this.#isProbing = false;
    }
  }

  /**
   * Records which locks were free. The time counts from the first answer, not from the question: the server may have
   * been blocked in between.
   */
  #note(asked: readonly string[], free: ReadonlySet<string>, endedAfterMs: number): void {
    const now = monotonicNow(this.#options.clock);
    let hasNew = false;
    for (const process of asked) {
      const other = this.#others.get(process);
      if (other === undefined) continue;
      other.freeSince = free.has(process) ? (other.freeSince ?? now) : null;
      const hasEnded = other.freeSince !== null && now - other.freeSince >= endedAfterMs;
      if (hasEnded && !other.hasEnded) hasNew = true;
      other.hasEnded = hasEnded;
    }
    if (hasNew) for (const listener of this.#endedListeners) listener();
  }

  /** The processes whose lock is free. The locks are released with the statement. */
  async #freeAmong(connection: PostgresConnection, processes: readonly string[]): Promise<ReadonlySet<string>> {
    const text = `SELECT process, pg_try_advisory_xact_lock_shared(${lockSql("$1", "process")})::text AS free, ${sessionSql} FROM jsonb_array_elements_text($2::text::jsonb) AS process`;
    const values = [this.#scope, JSON.stringify(processes)];
    const { rows } = await this.#query(connection, { text, values, name: "everturn_probe_2" });
    return new Set(
      rows.flatMap((row) => (textColumn(row, "free") === "true" ? (textColumn(row, "process") ?? []) : [])),
    );
  }

  /** Sends what is unsent, and closes the connection. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#cancelSend?.();
    if (this.#unsent !== null) await this.#send();
    this.#isClosed = true;
    this.#stopPolling();
    this.#stopProbing?.();
    await this.#connecting;
    const connection = this.#connection;
    this.#connection = null;
    connection?.release(true);
  }
}

/** The number of the advisory lock of a process. */
function lockSql(scope: string, process: string): string {
  return `hashtextextended(${scope}::text || ' process ' || ${process}::text, 0)`;
}

function isTable(name: string): name is TableName {
  return Object.hasOwn(tables, name);
}

/** Names are left out if they do not fit: every watcher reads then. */
function encodePayload(from: string, { sessions, tables: written }: WrittenNames): string {
  const names = sessions === undefined ? null : [...sessions];
  const payload = JSON.stringify({ from, sessions: names, tables: written === undefined ? null : [...written] });
  return Buffer.byteLength(payload) <= maxPayloadBytes ? payload : JSON.stringify({ from });
}

/** A payload that cannot be read, of another release for instance, is a write of which nothing is known. */
function decodePayload(payload: string): { readonly from: string | null; readonly written: WrittenNames } {
  let content: unknown;
  try {
    content = JSON.parse(payload);
  } catch {
    return { from: null, written: unknownWrite };
  }
  const list = (name: string): readonly string[] | undefined => {
    const value: unknown = typeof content === "object" && content !== null ? Reflect.get(content, name) : undefined;
    return Array.isArray(value) && value.every((item) => typeof item === "string") ? value : undefined;
  };
  const sessions = list("sessions");
  const written = list("tables");
  return {
    from: textColumn(content, "from"),
    written: {
      sessions: sessions === undefined ? undefined : new Set(sessions),
      tables: written === undefined ? undefined : new Set(written.filter(isTable)),
    },
  };
}

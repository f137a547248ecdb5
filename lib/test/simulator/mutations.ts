// Mutations for the simulator: each breaks one rule of the runtime, and the simulator must find it. A mutation wraps the storage of every process (drops
// checks or rows), or replaces a text in one source file when the program is bundled (`source`). `rule`: the oracle that has to find it, if no other one can.

import type { HostStorage, StorageBatch, StorageRow } from "everturn/runtime";

/** A mutation. `name` is used on the command line. */
export type Mutation = { readonly name: string; readonly rule?: string } & (
  | { readonly wrap: (storage: HostStorage) => HostStorage }
  | { readonly source: SourceChange }
);

/** Replacements in a source file. The bundler fails unless each `from` occurs exactly once. */
type SourceChange = {
  /** The path from lib/src. */
  readonly file: string;
  readonly replacements: readonly (readonly [from: string, to: string])[];
};

export const mutations: readonly Mutation[] = [
  {
    name: "no-compare-and-swap",
    wrap: writing((batch) => ({ ...batch, checks: batch.checks.filter(({ table }) => table === "leases") })),
  },
  {
    name: "no-fence",
    wrap: writing((batch) => ({ ...batch, checks: batch.checks.filter(({ table }) => table !== "leases") })),
  },
  {
    name: "no-lease-check-before-performing",
    source: {
      file: "runtime/drive/lease-holder.ts",
      replacements: [
        ["if (!this.isSafe) return this.#renewUntilSafe();", "if (this.#isReleased) return this.#renewUntilSafe();"],
      ],
    },
  },
  {
    name: "unsettled-input",
    wrap: writing((batch) => ({
      ...batch,
      removals: batch.removals.filter(({ table, prefix }) => table !== "inbox" || prefix.length === 2),
    })),
  },
  {
    name: "publish-before-commit",
    source: {
      file: "runtime/drive/turn-committer.ts",
      replacements: [
        ["      this.channel.publish(write.events);\n", ""],
        [
          "      const written = await this.orStop(this.holder.write(batch, { put }));",
          "      this.channel.publish(write.events);\n      const written = await this.orStop(this.holder.write(batch, { put }));",
        ],
      ],
    },
  },
  {
    name: "replay-out-of-order",
    wrap: (storage) => ({
      ...storage,
      read: async (queries) => {
        const all = await storage.read(queries);
        return all.map((rows, index) => (queries[index]?.table === "journal" ? swapped(rows) : rows));
      },
    }),
  },
  {
    name: "no-start-mark",
    wrap: writing((batch) => ({
      ...batch,
      puts: batch.puts.filter(({ table, key }) => table !== "records" || key[4] !== "started"),
    })),
  },
  {
    name: "approvals-outlive-the-turn",
    wrap: keepingApprovals,
  },
  {
    name: "lease-not-extended",
    wrap: (storage) => ({
      ...storage,
      write: async (batch) => {
        const lease = batch.puts.find(({ table, ttlMs }) => table === "leases" && (ttlMs ?? 0) > 0);
        const check = batch.checks.find(({ table, tag }) => table === "leases" && tag === lease?.tag);
        // A put under the token that the batch checks extends the lease; another one claims or releases it.
        if (lease === undefined || check === undefined) return storage.write(batch);
        return storage.write({ ...batch, puts: batch.puts.filter((put) => put !== lease) });
      },
    }),
  },
  {
    name: "cancel-not-stored",
    rule: "H6",
    wrap: writing((batch) => ({ ...batch, puts: batch.puts.filter(({ table }) => table !== "cancels") })),
  },
  {
    name: "stored-cancel-ignored-by-the-next-holder",
    rule: "H6",
    source: {
      file: "runtime/drive/turn-driver.ts",
      replacements: [["    if (cancel !== null && !this.#isEnding) this.#run.cancel(cancel);\n", "    void cancel;\n"]],
    },
  },
  {
    name: "cancels-of-other-processes-not-watched",
    rule: "H6",
    source: {
      file: "runtime/drive/cancel-watch.ts",
      replacements: [["      onCancel?.(row);\n", "      void row;\n"]],
    },
  },
  {
    name: "reader-that-leaves-cancels-the-turn",
    rule: "H6",
    source: {
      file: "runtime/verbs/handles.ts",
      replacements: [
        [
          "          stopped.abort();\n",
          '          stopped.abort();\n          if (aim?.type === "turn") context.turns.cancel(key, aim.turn, "reader", "left");\n',
        ],
      ],
    },
  },
  {
    name: "takeovers-not-counted",
    rule: "Q17",
    source: {
      file: "runtime/drive/session-claims.ts",
      replacements: [["const takeovers = force ? 0 : before + 1;", "const takeovers = before;"]],
    },
  },
  {
    name: "takeovers-without-backoff",
    rule: "Q17",
    source: {
      file: "runtime/drive/session-claims.ts",
      replacements: [["    if (waitMs > 0) {\n", "    if (waitMs > 0 && force) {\n"]],
    },
  },
  {
    name: "released-lease-counts-as-takeover",
    rule: "Q17",
    source: {
      file: "runtime/rows/lease.ts",
      replacements: [["const takesOver = held !== null && !held.released;", "const takesOver = held !== null;"]],
    },
  },
  {
    name: "takeover-limit-ignored",
    rule: "Q17",
    source: {
      file: "runtime/drive/session-claims.ts",
      replacements: [
        [
          "const isLimit = isAtLimit(takeovers, wasAlone, maxTakeovers);",
          "const isLimit = isAtLimit(-1, wasAlone, maxTakeovers);",
        ],
      ],
    },
  },
  {
    name: "suspects-beside-other-turns",
    rule: "Q17",
    source: {
      file: "runtime/drive/active-turns.ts",
      replacements: [
        [
          "(this.#alone !== null && this.#alone !== session)) return null;",
          "(this.#closing && session === null)) return null;",
        ],
      ],
    },
  },
  {
    name: "late-results-kept",
    rule: "Q18",
    source: {
      file: "runtime/drive/journal.ts",
      replacements: [
        [
          "    const response = await perform();\n",
          "    const response = lateResults.get(effect.id) ?? (await perform());\n    lateResults.set(effect.id, response);\n",
        ],
        [
          "/** The journal port of one turn. */\n",
          "const lateResults = new Map<string, EffectResponse>();\n\n/** The journal port of one turn. */\n",
        ],
      ],
    },
  },
  {
    name: "late-results-dropped",
    rule: "Q18",
    source: {
      file: "runtime/drive/lease-holder.ts",
      replacements: [["      await this.#claimAgain(token);\n", "      if (token > 0) throw this.lost();\n"]],
    },
  },
  {
    name: "storage-error-recorded-by-a-child-turn",
    rule: "Q1",
    source: {
      file: "runtime/drive/turn-driver.ts",
      replacements: [
        [
          "const { at, records, holder, orStop } = this.#committer;",
          "const { at, records, holder } = this.#committer;",
        ],
        ["scope: records, holder, orStop });", "scope: records, holder, orStop: (work) => work });"],
      ],
    },
  },
];

function writing(change: (batch: StorageBatch) => StorageBatch): (storage: HostStorage) => HostStorage {
  return (storage) => ({
    ...storage,
    write: async (batch) => {
      const changed = change(batch);
      const written = await storage.write(changed);
      if (written.ok) return written;
      // The index of the check in the batch of the caller.
      const failed = changed.checks[written.check];
      return { ok: false, check: batch.checks.findIndex((check) => check === failed) };
    },
  });
}

/** Rows in the wrong order: the first two are exchanged. The keys stay, so that only the contents are out of order. */
function swapped(rows: readonly StorageRow[]): readonly StorageRow[] {
  const [first, second, ...rest] = rows;
  if (first === undefined || second === undefined) return rows;
  return [{ ...second, key: first.key }, { ...first, key: second.key }, ...rest];
}

/** The commit that ends a cancelled turn keeps the approvals that the turn was started with. */
function keepingApprovals(storage: HostStorage): HostStorage {
  return {
    ...storage,
    write: async (batch) => {
      const head = batch.puts.find(({ table }) => table === "sessions");
      const ends = batch.puts.some(({ table, value }) => table === "turns" && value.includes('"type":"cancelled"'));
      if (head === undefined || !ends) return storage.write(batch);
      const [[row] = []] = await storage.read([{ table: "sessions", prefix: head.key }]);
      const before = row === undefined ? [] : pendingOf(row.value);
      if (before.length === 0) return storage.write(batch);
      const value = head.value.replace('"pendingToolCalls":[]', `"pendingToolCalls":${JSON.stringify(before)}`);
      return storage.write({ ...batch, puts: batch.puts.map((put) => (put === head ? { ...put, value } : put)) });
    },
  };
}

/** The decided calls in a session row. */
function pendingOf(value: string): readonly unknown[] {
  const row: { readonly data?: { readonly session?: { readonly pendingToolCalls?: readonly unknown[] } } } =
    JSON.parse(value);
  const calls = row.data?.session?.pendingToolCalls ?? [];
  return calls.filter((call) => JSON.stringify(call).includes('"decision":{'));
}

// Mutations for the simulator: each breaks one rule of the runtime, and the simulator must find it. A mutation wraps
// the storage of every process (drops checks or rows), or replaces a text in one source file when the program is
// bundled (`source`). `rule`: the oracle that has to find it, if no other one can.

import type { StorageBatch, StorageRow } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";
import type { SimulationOptions } from "everturn/testing";

/** A mutation. `name` is used on the command line. */
export type Mutation = {
  readonly name: string;
  readonly rule?: string;
  /** Faults without which it cannot be found. */
  readonly extraFaults?: NonNullable<SimulationOptions["extraFaults"]>;
} & ({ readonly wrap: (storage: HostStorage) => HostStorage } | { readonly source: SourceChange });

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
      file: "durable/drive/lease-holder.ts",
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
      file: "durable/drive/turn-committer.ts",
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
    name: "frame-not-stored",
    rule: "frames",
    wrap: writing((batch) => ({ ...batch, puts: batch.puts.filter(({ table }) => table !== "frames") })),
  },
  {
    name: "frame-separates-calls-from-results",
    source: {
      file: "core/kernel/history/framed-history.ts",
      replacements: [["    if (openCalls === 0) yield index + 1;\n", "    yield index + 1;\n"]],
    },
  },
  {
    name: "frame-without-the-newest-message",
    rule: "history",
    source: {
      file: "core/kernel/history/framed-history.ts",
      replacements: [
        [
          "  if (newest !== null && newest < to && !positions.includes(newest)) positions.push(newest);\n",
          "  void newest;\n",
        ],
      ],
    },
  },
  {
    name: "undone-frame-stays-in-the-session",
    rule: "frames",
    source: {
      file: "durable/accept/compaction.ts",
      replacements: [["      frame: await frameBefore(context, key, frame.to),\n", ""]],
    },
  },
  {
    name: "undo-of-a-frame-not-stored",
    rule: "frames",
    wrap: writing((batch) => ({
      ...batch,
      puts: batch.puts.filter(({ table, value }) => table !== "frames" || !value.includes('"undoneAt"')),
    })),
  },
  {
    name: "undone-frame-used-again",
    rule: "frames",
    source: {
      file: "durable/accept/compaction.ts",
      replacements: [["frames.find(({ undoneAt }) => undoneAt === null);", "frames[0];"]],
    },
  },
  {
    name: "undo-without-its-key",
    rule: "frames",
    source: {
      file: "durable/accept/compaction.ts",
      replacements: [["        acceptedRow(accepted, before, null),\n", ""]],
    },
  },
  {
    name: "undo-while-a-turn-is-open",
    rule: "frames",
    source: {
      file: "durable/accept/compaction.ts",
      replacements: [["    checkFree(before, version);\n", "    void [checkFree, version];\n"]],
    },
  },
  {
    name: "turn-begins-without-the-frame",
    rule: "frames",
    source: {
      file: "durable/drive/new-turn.ts",
      replacements: [
        [
          "start: { ...request, revision, spentBefore, contextWindow } }",
          "start: { ...request, revision, spentBefore, contextWindow: null } }",
        ],
      ],
    },
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
      file: "durable/drive/turn-driver.ts",
      replacements: [
        [
          "    if (this.#cancel !== null && !this.#isEnding) this.#run.cancel(this.#cancel);\n",
          "    void this.#cancel;\n",
        ],
      ],
    },
  },
  {
    name: "cancels-of-other-processes-not-watched",
    rule: "H6",
    source: {
      file: "durable/drive/cancel-watch.ts",
      replacements: [["      onCancel?.(row);\n", "      void row;\n"]],
    },
  },
  {
    name: "reader-that-leaves-cancels-the-turn",
    rule: "H6",
    source: {
      file: "durable/sessions/handles.ts",
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
      file: "durable/drive/session-claims.ts",
      replacements: [["const takeovers = force ? 0 : before + 1;", "const takeovers = before;"]],
    },
  },
  {
    name: "takeovers-without-backoff",
    rule: "Q17",
    source: {
      file: "durable/drive/session-claims.ts",
      replacements: [["    if (waitMs > 0) {\n", "    if (waitMs > 0 && force) {\n"]],
    },
  },
  {
    name: "released-lease-counts-as-takeover",
    rule: "Q17",
    source: {
      file: "durable/rows/lease.ts",
      replacements: [["const takesOver = held !== null && !held.released;", "const takesOver = held !== null;"]],
    },
  },
  {
    name: "takeover-limit-ignored",
    rule: "Q17",
    source: {
      file: "durable/drive/session-claims.ts",
      replacements: [
        [
          "const isLimit = isAtLimit(takeovers, wasAlone, maxTakeovers);",
          "const isLimit = isAtLimit(-1, wasAlone, maxTakeovers);",
        ],
      ],
    },
  },
  {
    name: "tokens-not-unique",
    extraFaults: ["failover"],
    source: {
      file: "durable/rows/lease.ts",
      replacements: [["+ Math.floor(random * firstNonces);", "+ Math.floor(random * 0);"]],
    },
  },
  {
    name: "lease-changed-under-its-token",
    source: {
      file: "durable/drive/lease-holder.ts",
      replacements: [["{ ...lease, token: tokenOfChange(lease.token), ttlMs,", "{ ...lease, ttlMs,"]],
    },
  },
  {
    name: "times-of-the-index-from-clients",
    extraFaults: ["far_clocks"],
    source: {
      file: "durable/rows/storage-clock.ts",
      replacements: [["  if (ask === undefined)", "  if (ask !== null)"]],
    },
  },
  {
    name: "suspects-beside-other-turns",
    rule: "Q17",
    source: {
      file: "durable/drive/turn-places.ts",
      replacements: [["this.#isClosed || this.#alone !== null ? 0", "this.#isClosed ? 0"]],
    },
  },
  {
    name: "late-results-kept",
    source: {
      file: "durable/drive/journal.ts",
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
      file: "durable/drive/lease-holder.ts",
      replacements: [["      await this.#claimAgain(token);\n", "      if (token > 0) throw this.lost();\n"]],
    },
  },
  {
    name: "storage-error-recorded-by-a-child-turn",
    rule: "Q1",
    source: {
      file: "durable/drive/turn-driver.ts",
      replacements: [
        [
          "const { records, holder, orStop, writeChildRow } = this.#committer;",
          "const { records, holder, writeChildRow } = this.#committer;",
        ],
        ["holder, orStop, writeChildRow });", "holder, orStop: (work) => work, writeChildRow });"],
      ],
    },
  },
  {
    name: "queued-message-without-its-key",
    source: {
      file: "durable/accept/queue.ts",
      replacements: [
        [
          "changes: merge(added, interrupts",
          'changes: merge({ ...added, puts: added.puts.filter(({ table }) => table !== "accepted") }, interrupts',
        ],
      ],
    },
  },
  {
    name: "steered-message-without-its-key",
    source: {
      file: "durable/accept/steer.ts",
      replacements: [
        [
          "    changes: inputChanges(open, entry, digest),\n",
          '    changes: { ...inputChanges(open, entry, digest), puts: inputChanges(open, entry, digest).puts.filter(({ table }) => table !== "accepted") },\n',
        ],
      ],
    },
  },
  {
    name: "accepted-key-not-found",
    rule: "keys",
    source: {
      file: "durable/accept/accept.ts",
      replacements: [
        [
          "  if (key === undefined || rows.accepted === null) return null;\n",
          "  if (key === undefined || rows.accepted === null || rows.accepted.tag === 0) return null;\n",
        ],
      ],
    },
  },
  {
    name: "key-with-other-content",
    rule: "keys",
    source: {
      file: "durable/accept/accept.ts",
      replacements: [["  if (!digests.includes(digest)) throw", "  if (digests.length === 0) throw"]],
    },
  },
  {
    name: "queued-message-starts-twice",
    source: {
      file: "durable/drive/new-turn.ts",
      replacements: [
        [
          "{ ...noChanges, checks }, settled) };",
          "{ ...noChanges, checks }, settled.puts.length < 0 ? settled : noChanges) };",
        ],
      ],
    },
  },
  {
    name: "inputs-dropped-at-the-end-of-the-turn",
    source: {
      file: "durable/drive/new-turn.ts",
      replacements: [
        [
          "settleInputs(storage, key, turn.start.inputs, turn.id)",
          'settleInputs(storage, key, rows.map((row) => readValue("inbox", row).id), turn.id)',
        ],
      ],
    },
  },
  {
    name: "arrival-at-the-end-of-the-turn-not-checked",
    source: {
      file: "durable/drive/new-turn.ts",
      replacements: [
        [
          '    checks: [{ table: "inboxes", key: keyOf(key), tag: counts[0]?.tag ?? null }],\n',
          "    checks: counts.length < 0 ? [] : noChanges.checks,\n",
        ],
      ],
    },
  },
  {
    name: "claims-of-inputs-outlive-their-epoch",
    rule: "inputs",
    source: {
      file: "durable/rows/inbox.ts",
      replacements: [
        [
          '(state === "pending" || claimedBy !== epoch || entry.turn === turn)',
          '(state === "pending" || claimedBy === -epoch)',
        ],
      ],
    },
  },
  {
    name: "inputs-delivered-newest-first",
    rule: "inputs",
    source: {
      file: "durable/drive/claim-inputs.ts",
      replacements: [
        [
          "claimed: found.slice(0, maxClaimedInputs), count",
          "claimed: found.slice(0, maxClaimedInputs).reverse(), count",
        ],
      ],
    },
  },
  {
    name: "newest-message-starts-the-next-turn",
    rule: "inputs",
    source: {
      file: "durable/rows/inbox.ts",
      replacements: [
        [
          "entry.ownTurn?.interrupts === true) ?? waiting[0];",
          "entry.ownTurn?.interrupts === true) ?? waiting.at(-1);",
        ],
      ],
    },
  },
  {
    name: "claimed-input-withdrawn",
    rule: "inputs",
    source: {
      file: "durable/accept/steer.ts",
      replacements: [
        [
          '    if (entry.state === "claimed" && entry.epoch === epochOf(leases[0]?.tag ?? 0)) return "already_claimed";\n',
          "    void leases;\n",
        ],
      ],
    },
  },
  {
    name: "records-of-children-without-a-fence",
    source: {
      file: "durable/drive/children.ts",
      replacements: [
        [
          "await orStop(holder.write(putting(recordPut(at, effectId, name, value))));",
          "await orStop(storage.write(putting(recordPut(at, effectId, name, value))));",
        ],
      ],
    },
  },
  {
    name: "journals-of-children-without-a-fence",
    source: {
      file: "durable/drive/children.ts",
      replacements: [
        [
          "const written = await parent.writeChildRow({ checks: [absent, ...before]",
          "const written = await storage.write({ checks: [absent, ...before]",
        ],
      ],
    },
  },
  {
    name: "answers-to-children-not-recorded",
    rule: "Q10",
    source: {
      file: "durable/drive/children.ts",
      replacements: [["        if (recordedAnswer === null) await scope.record(this.#base, name, answer);\n", ""]],
    },
  },
  {
    name: "children-not-replayed",
    source: {
      file: "durable/drive/children.ts",
      replacements: [
        ["new DurableJournal(effectiveRows(stored), {", "new DurableJournal(effectiveRows(stored.slice(0, 0)), {"],
      ],
    },
  },
  {
    name: "fork-keeps-decisions",
    rule: "forks",
    source: {
      file: "durable/sessions/fork.ts",
      replacements: [["=> ({ ...call, decision: null }));", "=> ({ ...call }));"]],
    },
  },
  {
    name: "fork-keeps-idempotency-keys",
    rule: "forks",
    source: {
      file: "durable/sessions/fork.ts",
      replacements: [["withDigest({ ...call, idempotencyKey: null })", "withDigest({ ...call })"]],
    },
  },
  {
    name: "fork-lacks-its-last-message",
    source: {
      file: "durable/sessions/fork.ts",
      replacements: [
        ["redone === null ? entries.slice(0, at) :", "redone === null ? entries.slice(0, Math.max(1, at - 1)) :"],
      ],
    },
  },
  {
    name: "fork-copies-events",
    rule: "forks",
    wrap: copyingEvents,
  },
  {
    name: "due-row-not-moved-at-release",
    rule: "due",
    source: {
      file: "durable/drive/turn-committer.ts",
      replacements: [
        [
          "await this.holder.release(merge(moveDue(key, open, this.#context.clock.now()), unused));",
          'if (open.turn !== "") await this.holder.release(unused);',
        ],
      ],
    },
  },
  {
    name: "due-row-not-written",
    wrap: writing((batch) => ({
      ...batch,
      puts: batch.puts.filter(({ table, key }) => table !== "work" || key[0] !== "turn"),
    })),
  },
  {
    name: "held-turn-leaves-the-index",
    rule: "due",
    source: {
      file: "durable/work/due-turns.ts",
      replacements: [
        [
          "await storage.write(merge(held, moveIndexedDue(key, open, lease.expires ?? clock.now())));",
          "await storage.write({ ...held, removals: [workRemoval(item)] });",
        ],
      ],
    },
  },
  {
    name: "lanes-of-work-not-read-again",
    rule: "liveness",
    source: {
      file: "durable/work/lanes.ts",
      replacements: [
        ["for (const { stale } of this.#queues.values()) stale.add(lane);", "void lane;"],
        ["const maxAgeMs = 30_000;", "const maxAgeMs = Infinity;"],
      ],
    },
  },
  {
    name: "row-of-an-ended-turn-left",
    rule: "due",
    source: {
      file: "durable/rows/open-rows.ts",
      replacements: [
        [
          'return [{ table: "open", prefix: keyOf(key) }, dueRemoval(key, turn), ...limitRemovals(key, turn.limit)];',
          'return [{ table: "open", prefix: keyOf(key) }, ...limitRemovals(key, turn.limit)];',
        ],
      ],
    },
  },
  {
    name: "tenant-that-was-served-last-is-skipped",
    rule: "liveness",
    source: {
      file: "durable/work/visit.ts",
      replacements: [
        [
          "const due = await pass.lanes.dueAt(queue, pass.horizon);\n    const last = this.#served.get(queue);",
          "const last = this.#served.get(queue);\n    const due = (await pass.lanes.dueAt(queue, pass.horizon)).filter((lane) => lane !== last);",
        ],
      ],
    },
  },
  {
    name: "takeovers-not-reset",
    rule: "Q17",
    source: {
      file: "durable/rows/session-write.ts",
      replacements: [["const takeovers = isProgress ? 0 : before.takeovers;", "const takeovers = before.takeovers;"]],
    },
  },
  {
    name: "cancel-not-removed-at-the-end",
    rule: "Q9",
    wrap: writing((batch) => ({
      ...batch,
      removals: batch.removals.filter(({ table, prefix }) => table !== "cancels" || prefix.length < 3),
    })),
  },
  {
    name: "completion-not-remembered",
    rule: "tokens",
    source: {
      file: "durable/accept/tokens.ts",
      replacements: [['  if (stored.usedAt !== null) return { type: "already_completed", ...named };\n', ""]],
    },
  },
  {
    name: "commits-not-lasting",
    source: {
      file: "durable/drive/lease-holder.ts",
      replacements: [
        [
          "const written = await this.#context.storage.write(batch);",
          "const written = await this.#context.storage.write({ ...batch, lasting: false });",
        ],
      ],
    },
  },
  {
    name: "acceptance-not-lasting",
    wrap: writing((batch) => ({
      ...batch,
      ...(batch.puts.some(({ table }) => table === "accepted") ? { lasting: false } : {}),
    })),
  },
  {
    name: "claims-not-lasting",
    source: {
      file: "durable/drive/session-claims.ts",
      replacements: [
        [
          "const written = await this.#context.storage.write(claiming);",
          "const written = await this.#context.storage.write({ ...claiming, lasting: false });",
        ],
      ],
    },
  },
  {
    name: "history-cache-by-length",
    source: {
      file: "durable/rows/history-cache.ts",
      replacements: [
        ["history?.length === length && history.digest === digest ?", 'history?.length === length && digest !== "" ?'],
      ],
    },
  },
  {
    name: "no-reset-before-a-newer-attempt",
    rule: "Q7",
    source: {
      file: "durable/read/reader.ts",
      replacements: [
        [
          "(this.#position?.effectId === effectId || this.#offsets.size > 0)) yield this.#reset(turn, of);",
          "part === effectId) yield this.#reset(turn, of);",
        ],
        [
          "if (order > 0 && this.#position?.effectId === effectId) yield this.#reset(turn, of);",
          "if (order > 0 && part === effectId) yield this.#reset(turn, of);",
        ],
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
      const ended: SessionRow = JSON.parse(head.value);
      const session = { ...ended.data?.session, pendingToolCalls: before };
      const value = JSON.stringify({ ...ended, data: { ...ended.data, session } });
      return storage.write({ ...batch, puts: batch.puts.map((put) => (put === head ? { ...put, value } : put)) });
    },
  };
}

type SessionRow = { readonly data?: { readonly session?: { readonly pendingToolCalls?: readonly unknown[] } } };

/** The decided calls in a session row. */
function pendingOf(value: string): readonly unknown[] {
  const row: SessionRow = JSON.parse(value);
  const calls = row.data?.session?.pendingToolCalls ?? [];
  return calls.filter((call) => JSON.stringify(call).includes('"decision":{'));
}

/** The batch of a fork has the first event of the original too. */
function copyingEvents(storage: HostStorage): HostStorage {
  return {
    ...storage,
    write: async (batch) => {
      const head = batch.puts.find(({ table }) => table === "sessions");
      const [, origin] = /"forkedFrom":\{[^}]*"sessionId":"([^"]*)"/.exec(head?.value ?? "") ?? [];
      const [tenant = "", session = ""] = head?.key ?? [];
      const isFork = batch.checks.some(({ table, tag }) => table === "sessions" && tag === null);
      if (origin === undefined || !isFork) return storage.write(batch);
      const [[event] = []] = await storage.read([{ table: "events", prefix: [tenant, origin], limit: 1 }]);
      if (event === undefined) return storage.write(batch);
      const { tag, value } = event;
      const copied = { table: "events", key: [tenant, session, 1], tag, value } as const;
      return storage.write({ ...batch, puts: [...batch.puts, copied] });
    },
  };
}

// Mutations of the durable runtime, its storages, traces and the Restate adapter, and of the files that state rules
// (compiler settings, documents).

import type { Mutation } from "../mutation.ts";

import { inFile } from "../mutation.ts";

export const runtimeMutations: readonly Mutation[] = [
  ...inFile("lib/src/durable/rows/lease.ts", [
    {
      rows: ["lash 76"],
      defect: "a lease is claimed while another process holds it",
      from: "if (!isFreeOrStuck && !(held !== null && holderHasEnded(held, liveness))) {",
      to: 'if (!isFreeOrStuck && owner === "") {',
    },
    {
      rows: ["lash 84"],
      defect: "a lease may last two renewals",
      from: "ttlMs >= 3 * renewMs",
      to: "ttlMs >= 2 * renewMs",
    },
  ]),
  ...inFile("lib/src/durable/drive/journal.ts", [
    {
      rows: ["lash 78"],
      defect: "a strict replay performs effects",
      from: "    if (this.#strict) {\n",
      to: "    if (this.#strict && this.#recorded.length > 0) {\n",
    },
    {
      rows: ["lash 79"],
      defect: "a replay does not compare effects",
      from: "if (ordered === row.effect || binding) return row.item;",
      to: "if (ordered !== null || binding) return row.item;",
    },
    {
      rows: ["lash 80", "lash 98"],
      defect: "recorded effects are performed again",
      from: "    if (ordered === undefined) throw diverged(ordinal, id, [`no effect of this id was ordered`]);\n    this.#deferred.delete(id);\n",
      to: "    if (ordered === undefined) throw diverged(ordinal, id, [`no effect of this id was ordered`]);\n    this.#deferred.get(id)?.();\n    this.#deferred.delete(id);\n",
    },
  ]),
  ...inFile("lib/src/durable/accept/accept.ts", [
    {
      rows: ["lash 82"],
      defect: "a key may be used again with other content",
      from: "if (!digests.includes(digest)) throw keyConflict(key);",
      to: "if (digests.length === 0) throw keyConflict(key);",
    },
  ]),
  ...inFile("lib/src/durable/host/memory/memory.ts", [
    {
      rows: ["lash 81", "lash 83"],
      defect: "a batch is written although a check fails",
      from: "if (failedCheck !== -1) return { ok: false, check: failedCheck };",
      to: "if (failedCheck < -1) return { ok: false, check: failedCheck };",
    },
  ]),
  ...inFile("lib/src/durable/accept/steer.ts", [
    {
      rows: ["lash 85"],
      defect: "claimed input can be withdrawn",
      from: 'if (entry.state === "claimed" && entry.epoch ===',
      to: 'if (entry.state === "void" && entry.epoch ===',
    },
  ]),
  ...inFile("lib/src/durable/accept/tokens.ts", [
    {
      rows: ["lash 86"],
      defect: "a token works twice",
      from: 'if (stored.usedAt !== null) return { type: "already_completed", ...named };',
      to: "void stored.usedAt;",
    },
  ]),
  ...inFile("lib/src/durable/work/expire.ts", [
    {
      rows: ["lash 73"],
      defect: "a deadline with fail_turn answers the call",
      from: 'if (onTimeout === "fail_turn") {',
      to: 'if (onTimeout === "never") {',
    },
  ]),
  ...inFile("lib/src/durable/accept/cancel.ts", [
    {
      rows: ["lash 87"],
      defect: "a cancel after the end of the turn is reported as cancelled",
      from: 'if (status === "ended") return end?.outcome.type === "cancelled" ? "cancelled" : "completion_won";',
      to: 'if (status === "ended") return end === undefined ? "completion_won" : "cancelled";',
    },
  ]),
  ...inFile("lib/src/durable/drive/turn-committer.ts", [
    {
      rows: ["lash 75"],
      defect: "a journal row has no text of its effect",
      from: "return { effect, hash: effect === null ? null : await sha256(effect), item, epoch, attempt, timing };",
      to: "return { effect: null, hash: effect === null ? null : await sha256(effect), item, epoch, attempt, timing };",
    },
  ]),
  ...inFile("lib/src/core/model/turn/reply-parts.ts", [
    {
      rows: ["lash 91"],
      defect: "the offset of a delta is that of its end",
      from: "    return { part, offset };\n",
      to: "    return { part, offset: offset + text.delta.length };\n",
    },
  ]),
  ...inFile("lib/src/durable/rows/ledger.ts", [
    {
      rows: ["lash 94"],
      defect: "the usage of nested turns is not in the ledger",
      from: 'return "spent" in response ? line("tool", "tool", null, response.spent) : [];',
      to: "return [];",
    },
  ]),
  ...inFile("lib/src/durable/drive/context.ts", [
    {
      rows: ["lash 100"],
      defect: "a durable runtime accepts a volatile storage",
      from: 'if (required !== "durable" || storage.durability === "durable") return storage;',
      to: 'if (required !== "durable" || storage.durability !== null) return storage;',
    },
  ]),
  ...inFile("lib/src/durable/rows/values.ts", [
    {
      rows: ["lash 65"],
      defect: "rows of older versions need a field that was added later",
      from: "  discarded: fallback(number, 0),",
      to: "  discarded: required(number),",
    },
  ]),
  ...inFile("lib/src/durable/restate/drive-handlers.ts", [
    {
      rows: ["lash 89"],
      defect: "a session that was handed over is not driven again",
      from: "if (tookMs >= shortSliceMs) return { delayMs: 0, retries: 0 };",
      to: "if (tookMs >= shortSliceMs) return null;",
    },
  ]),
  ...inFile("lib/src/serve/trace/trace-lines.ts", [
    {
      rows: ["lash 92"],
      defect: "a span has no parent",
      from: "parent: parent === null ? null : (this.#names.get(parent) ?? null),",
      to: "parent: null,",
    },
  ]),
  ...inFile("lib/src/serve/trace/viewer.ts", [
    {
      rows: ["lash 93"],
      defect: "texts of a trace are not escaped",
      from: "return json.replaceAll(/[<>&\\u2028\\u2029]/g,",
      to: "return json.replaceAll(/[\\u2028\\u2029]/g,",
    },
  ]),
  ...inFile("lib/src/core/run/perform/start-mark.ts", [
    {
      rows: ["lash 95"],
      defect: "a tool that must not run twice has no start mark",
      from: 'return replay === "safe" || epoch === 0 ? null :',
      to: 'return replay !== "ask" || epoch === 0 ? null :',
    },
  ]),
  ...inFile("lib/src/testing/simulator/simulate.ts", [
    {
      rows: ["lash 96"],
      defect: "a violation is not shrunk",
      from: "if (options.shrink !== true || report.violations.length === 0) return report;",
      to: "if (report !== null) return report;",
    },
  ]),
  ...inFile("lib/src/core/kernel/tsconfig.json", [
    {
      rows: ["lash 1"],
      defect: "the kernel may use the DOM and Node",
      from: '"compilerOptions": { "rootDir": "."',
      to: '"compilerOptions": { "lib": ["ES2023", "DOM"], "types": ["node"], "rootDir": "."',
    },
  ]),
  ...inFile("docs/coming-from-allm-and-lash.md", [
    {
      rows: ["lash 59"],
      defect: "an event of lash is mapped to one that does not exist",
      from: "| `retry_scheduled` ",
      to: "| `retry_planned`   ",
    },
  ]),
];

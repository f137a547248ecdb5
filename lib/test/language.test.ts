// Checks the language of the repository (CONTRIBUTING.md, "Language"): terms of the field are found in the files that
// implement them, retired words do not come back in comments and documents, and the source files that comments name
// exist.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { parseSync } from "oxc-parser";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

/** Where a reader who searches for a term has to arrive. */
const implementedIn: readonly (readonly [term: RegExp, ...files: string[]])[] = [
  [/\blease\b/i, "lib/src/durable/rows/lease.ts", "lib/src/durable/drive/lease-holder.ts"],
  [/\bfencing\b/i, "lib/src/durable/rows/lease.ts", "lib/src/durable/drive/lease-holder.ts"],
  [/\bepoch\b/i, "lib/src/durable/rows/lease.ts"],
  [/compare-and-swap/i, "lib/src/durable/rows/session-write.ts", "lib/src/durable/rows/storage.ts"],
  [/idempotency key/i, "lib/src/durable/accept/accept.ts", "lib/src/serve/client/client.ts"],
  [/write-ahead log|\bWAL\b/i, "lib/src/durable/host/sqlite/connection.ts"],
  [/group commit/i, "lib/src/durable/host/sqlite/request-queue.ts"],
  [/\breplay/i, "lib/src/durable/drive/journal.ts"],
  [/\bcheckpoint/i, "lib/src/core/run/perform/checkpoint.ts"],
  [/backpressure/i, "lib/src/serve/http/sse.ts", "apps/server/src/send-stream.ts"],
  [/semaphore/i, "lib/src/core/fair/fair-share.ts"],
  [/allowlist/i, "lib/src/serve/http/handler.ts"],
  [/DNS rebinding/i, "lib/src/serve/http/handler.ts", "lib/src/serve/http/request-checks.ts"],
  [/\bCSRF\b/, "lib/src/serve/http/handler.ts", "lib/src/serve/http/request-checks.ts"],
  [/constant-time|constant time/i, "lib/src/serve/http/auth.ts"],
  [/path traversal/i, "lib/src/core/wire/gemini/encode.ts", "lib/src/serve/http/input.ts"],
  [/amortised/i, "lib/src/core/kernel/history/shared-list.ts"],
  [/quadratic/i, "lib/src/core/kernel/history/history-thread.ts"],
  [/tombstone/i, "lib/src/durable/rows/session-write.ts", "lib/src/durable/sessions/delete.ts"],
  [/\bcursor/i, "lib/src/durable/read/cursor.ts"],
  [/pagination/i, "lib/src/durable/sessions/browse.ts"],
  [/exponential backoff/i, "lib/src/core/engine/model-call/retry.ts", "lib/src/serve/client/backoff.ts"],
  [/jitter/i, "lib/src/core/engine/model-call/retry.ts", "lib/src/serve/client/backoff.ts"],
  [/at-least-once|at least once/i, "lib/src/core/run/perform/tool.ts"],
  [/prototype pollution/i, "lib/src/core/model/parse/shape.ts"],
  [/redact/i, "lib/src/core/engine/model-call/keys.ts"],
  [/graceful shutdown/i, "apps/server/src/serve.ts"],
];

describe("terms of the field", () => {
  const places = implementedIn.flatMap(([term, ...files]) => files.map((file) => ({ term, file })));

  test.each(places)("$term is found in $file", ({ term, file }) => {
    expect(readFileSync(join(root, file), "utf8")).toMatch(term);
  });
});

/** Words and phrases that were used instead of the term of the field. */
const retired = [
  /\b(?:some|no)body\b/i,
  /\bin earnest\b/i,
  /\bfront door\b/i,
  /\b(?:the|a|this|one|same|by its) door\b/i,
  /\bwhere it is not said\b/i,
  /\bcomes to (?:the )?(?:same|an end|its)\b/i,
  /\bin the house\b/i,
  /\bpurse\b/i,
  /\b(?:was|is|are|were|been) (?:told|heard)\b/i,
  /\bwhat it came to\b/i,
  /\bfolded\b.*\bstream\b/i,
  /\bwait in line\b/i,
  /\bmay be asked for by\b/i,
  /^\s*(?:\/\/|\*)?\s*The same\b/,
];

const sources = ["lib/src", "lib/templates", "lib/test", "apps/server", "apps/cli", "bench", "tools"].flatMap(
  (folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => /\.(?:ts|mjs)$/.test(path) && !/(?:^|\/)(?:node_modules|dist|\.snippets)\//.test(path))
      .map((path) => `${folder}/${path}`),
);
const documents = readdirSync(root, { recursive: true, encoding: "utf8" }).filter(
  (path) => path.endsWith(".md") && !/(?:^|\/)(?:node_modules|dist|fixtures)\//.test(path),
);

test("comments use no retired word", () => {
  expect(sources.length).toBeGreaterThan(500);
  const lines = sources.flatMap((path) => {
    const { comments } = parseSync(path, readFileSync(join(root, path), "utf8"));
    return retiredLines(
      path,
      comments.flatMap(({ value }) => value.split("\n")),
    );
  });
  expect(lines).toEqual([]);
});

test("comments name files that exist", () => {
  const missing = sources.flatMap((path) => {
    const { comments } = parseSync(path, readFileSync(join(root, path), "utf8"));
    const named = comments.flatMap(({ value }) => value.match(/(?<![\w/.*-])[\w-][\w/.-]*\.ts\b/g) ?? []);
    return named
      .filter((name) => !existsSync(join(root, name)) && !sources.some((source) => `/${source}`.endsWith(`/${name}`)))
      .map((name) => `${path}: ${name}`);
  });
  expect(missing).toEqual([]);
});

test("titles, names and other strings use no personification", () => {
  const others = sources.filter((path) => path !== "lib/test/language.test.ts");
  const lines = others.flatMap((path) =>
    readFileSync(join(root, path), "utf8")
      .split("\n")
      .filter((line) => /(?:some|no)body/i.test(line))
      .map((line) => `${path}: ${line.trim()}`),
  );
  expect(lines).toEqual([]);
});

test("documents use no retired word", () => {
  expect(documents).toContain("docs/guide/durable.md");
  const lines = documents.flatMap((path) => retiredLines(path, readFileSync(join(root, path), "utf8").split("\n")));
  expect(lines).toEqual([]);
});

function retiredLines(path: string, lines: readonly string[]): readonly string[] {
  return lines.filter((line) => retired.some((word) => word.test(line))).map((line) => `${path}: ${line.trim()}`);
}

// docs/guide/failures.md has a row for every reason of every kind, with the status of its HTTP response.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { errorName, failureKinds, httpStatusOf } from "../src/core/model/failure/failure-reasons.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/guide/failures.md"), "utf8");

/** The kinds whose page lists only the reasons that `adapter_error` does not have. */
const sharesReasons: ReadonlySet<string> = new Set(["image_adapter_error", "stream_error"]);

const documented = page
  .split(/^## /m)
  .slice(1)
  .map((section) => ({
    type: section.slice(0, section.indexOf("\n")),
    section,
    rows: [...section.matchAll(/^\| `(\w+)` +\| (\d+) +\| (.*?) +\| (.*?) +\|$/gm)].map(
      ([, reason = "", status, meaning = "", advice = ""]) => ({ reason, status: Number(status), meaning, advice }),
    ),
  }));

test("the page has every kind and every reason", () => {
  const expected = Object.entries(failureKinds).map(([type, reasons]) => {
    const own = Object.keys(reasons).filter(
      (reason) => !sharesReasons.has(type) || !Object.hasOwn(failureKinds.adapter_error, reason),
    );
    return [type, own.toSorted()];
  });
  expect(documented.map(({ type, rows }) => [type, rows.map(({ reason }) => reason).toSorted()])).toEqual(expected);
});

test.each(Object.keys(failureKinds))("%s: each row has the status, a meaning and what to do", (name) => {
  const type = Object.keys(failureKinds).find((kind): kind is keyof typeof failureKinds => kind === name);
  const kind = documented.find((each) => each.type === name);
  if (type === undefined || kind === undefined) throw new Error(`${name} is not documented`);
  expect(kind.section).toContain(`\`${errorName(type)}\``);
  for (const { reason, status, meaning, advice } of kind.rows) {
    expect([reason, status]).toEqual([reason, httpStatusOf(type, reason)]);
    expect(meaning).toMatch(/\.$/);
    expect(advice).toMatch(/\.$/);
  }
});

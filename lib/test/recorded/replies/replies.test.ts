import type { Recording } from "./recording.ts";

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { knownRefusals } from "../known-refusals.ts";
import { compareRecording, refusalsOf, tryMutations } from "./check.ts";
import { mutations } from "./mutations.ts";
import { recordingsOf } from "./recording.ts";

// The hand-written fixtures of the codecs. `npm run test:recorded -- DIR` does the same with recorded traffic.
const fixtures = join(import.meta.dirname, "../../../../fixtures/wire");
const recordings = readdirSync(fixtures).flatMap((api) =>
  readdirSync(join(fixtures, api)).flatMap((name) =>
    ["stream.txt", "reply.json"].flatMap((file): readonly Recording[] => {
      const path = join(fixtures, api, name, file);
      return existsSync(path) ? recordingsOf(`${api}/${name}/${file}`, path, readFileSync(path, "utf8")) : [];
    }),
  ),
);

describe("replies of the fixtures, read without the codecs", () => {
  test.each(recordings.map((recording) => [recording.name, recording] as const))(
    "%s is what the codec decodes: streamed, whole and from bytes in random pieces",
    (_, recording) => {
      expect(compareRecording(recording, 2).differences).toEqual([]);
    },
  );
});

describe("the provider accepts the next request", () => {
  test.each(recordings.map((recording) => [recording.name, recording] as const))("after %s", (_, recording) => {
    expect(refusalsOf(recording).filter(({ rule }) => !knownRefusals.has(rule))).toEqual([]);
  });

  test("apart from known defects, each of which a fixture shows", () => {
    const refused = new Set(recordings.flatMap((recording) => refusalsOf(recording).map(({ rule }) => rule)));
    expect(refused).toEqual(knownRefusals);
  });
});

describe("a defect of a codec is reported for every reply that it changes", () => {
  const results = new Map(tryMutations(recordings).map((result) => [result.name, result]));

  test.each(Object.keys(mutations))("%s", (name) => {
    expect(results.get(name)).toMatchObject({ missed: [] });
    expect(results.get(name)?.changed).toBeGreaterThan(0);
  });
});

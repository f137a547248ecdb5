import type { Recording } from "./recording.ts";

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { compareRecording, tryMutations } from "./check.ts";
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

describe("a defect of a codec is reported for every reply that it changes", () => {
  const results = new Map(tryMutations(recordings).map((result) => [result.name, result]));

  test.each(Object.keys(mutations))("%s", (name) => {
    expect(results.get(name)).toMatchObject({ missed: [] });
    expect(results.get(name)?.changed).toBeGreaterThan(0);
  });
});

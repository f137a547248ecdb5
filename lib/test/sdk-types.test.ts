// Checks the request bodies of the encoders against the types of the official SDKs. Only the types are used: the bodies
// become literals of a generated file, one on each line, and the compiler reports the lines that do not match.

import type { Target } from "./sdk-types/targets.ts";
import type { JsonObject } from "everturn";

import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { user } from "everturn";
import { request, anthropicMessages } from "everturn/advanced";
import { beforeAll, describe, expect, test } from "vitest";

import { requestsFor } from "./sdk-types/requests.ts";
import { targets } from "./sdk-types/targets.ts";

const root = join(import.meta.dirname, "../..");
const workplace = join(root, "lib/.snippets/sdk-types");

/** A body and its line in the generated file. */
type Written = { readonly title: string; readonly file: string; readonly line: number; readonly body: JsonObject };

/** Invalid bodies, each with one change to a valid one. */
const mistakes: { readonly [Api in Target["codec"]["api"]]: readonly (readonly [string, JsonObject])[] } = {
  "openai-chat": [
    ["a field of another API", { max_output_tokens: 5 }],
    ["an unknown role", { messages: [{ role: "robot", content: "Hello." }] }],
    ["a part of another API", { messages: [{ role: "user", content: [{ type: "input_text", text: "Hello." }] }] }],
    ["a number as text", { temperature: "0.5" }],
    ["a tool that is not wrapped", { tools: [{ type: "function", name: "weather", parameters: {} }] }],
  ],
  "openai-responses": [
    ["a field of another API", { max_completion_tokens: 5 }],
    ["a part of another API", { input: [{ role: "user", content: [{ type: "text", text: "Hello." }] }] }],
    ["an image in the form of another API", { input: [{ role: "user", content: [{ type: "image_url" }] }] }],
    ["a tool that is wrapped", { tools: [{ type: "function", function: { name: "weather" } }] }],
    ["a format in the wrong place", { response_format: { type: "json_object" } }],
  ],
  "anthropic-messages": [
    ["a field of another API", { stop: ["END"] }],
    ["a system message", { messages: [{ role: "tool", content: "Be brief." }] }],
    ["a block of another API", { messages: [{ role: "user", content: [{ type: "input_text", text: "Hello." }] }] }],
    ["an image without its type", { messages: [{ role: "user", content: [imageWithoutType()] }] }],
    ["a choice of another API", { tool_choice: "required" }],
  ],
  gemini: [
    ["a field of another API", { messages: [] }],
    ["a part of another API", { contents: [{ role: "user", parts: [{ type: "text", text: "Hello." }] }] }],
    ["a setting in another spelling", { generationConfig: { max_output_tokens: 5 } }],
    ["an unknown mode", { toolConfig: { functionCallingConfig: { mode: "REQUIRED" } } }],
    ["an unknown tool", { tools: [{ functions: [] }] }],
  ],
};

function imageWithoutType(): JsonObject {
  return { type: "image", source: { type: "base64", data: "AAAA" } };
}

const fine = targets.flatMap((target) => {
  const bodies = requestsFor(target).map(({ title, request: asked }): readonly [string, JsonObject] => [
    title,
    target.codec.encode(asked, target.context).body,
  ]);
  return placed(target, `${target.codec.api}.ts`, bodies);
});
const wrong = targets.flatMap((target) => {
  const { codec, context } = target;
  const { body } = codec.encode(request([user("Hello.")]), context);
  const bodies = mistakes[codec.api].map(([title, change]): readonly [string, JsonObject] => [
    title,
    { ...body, ...change },
  ]);
  return placed(target, `${codec.api}-wrong.ts`, bodies);
});

/** The errors of the compiler, by file and line. */
const complaints = new Map<string, readonly string[]>();

beforeAll(async () => {
  await rm(workplace, { recursive: true, force: true });
  await mkdir(workplace, { recursive: true });
  for (const { codec, preamble } of targets) {
    for (const [file, all] of [
      [`${codec.api}.ts`, fine],
      [`${codec.api}-wrong.ts`, wrong],
    ] as const) {
      const lines = all
        .filter((one) => one.file === file)
        .map(({ body }, index) => `export const n${index}: Body = ${JSON.stringify(body)};`);
      await writeFile(join(workplace, file), `${[...preamble, ...lines].join("\n")}\n`);
    }
  }
  const config = { extends: "../../../tsconfig.test.json", include: ["*.ts"] };
  await writeFile(join(workplace, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const options = { cwd: workplace, maxBuffer: 64 * 1024 * 1024 };
  const output = await promisify(execFile)(process.execPath, [tsc, "-p", workplace, "--pretty", "false"], options).then(
    () => "",
    (error: { readonly stdout: string }) => error.stdout,
  );
  for (const [, place = "", line = "", words = ""] of output.matchAll(/^(\S+\.ts)\((\d+),\d+\): (.*(?:\n .*)*)/gm)) {
    const key = `${place}:${line}`;
    complaints.set(key, [...(complaints.get(key) ?? []), words]);
  }
}, 120_000);

describe.each(targets.map(({ codec }) => codec.api))("%s: the types of the SDK accept", (api) => {
  test.each(fine.filter(({ file }) => file === `${api}.ts`))("$title", ({ file, line }) => {
    expect(complaints.get(`${file}:${line}`) ?? []).toEqual([]);
  });
});

describe.each(targets.map(({ codec }) => codec.api))("%s: the types of the SDK reject", (api) => {
  test.each(wrong.filter(({ file }) => file === `${api}-wrong.ts`))("$title", ({ file, line }) => {
    expect(complaints.get(`${file}:${line}`)).toEqual([expect.stringMatching(/^error TS2\d+/)]);
  });
});

test("the compiler reports no other error: the SDK types are resolved", () => {
  const known = new Set([...fine, ...wrong].map(({ file, line }) => `${file}:${line}`));
  expect([...complaints].filter(([place]) => !known.has(place))).toEqual([]);
  expect(fine.length).toBeGreaterThan(80);
});

test("the requested version of Anthropic's API supports sampling settings", () => {
  const { headers } = anthropicMessages.encode(request([user("Hello.")]), {
    route: { provider: "anthropic", endpoint: "https://example.com/v1", model: "claude-haiku-4-5" },
    rawChunks: false,
    quirks: {},
  });
  expect(headers["anthropic-version"]).toBe("2023-06-01");
});

function placed(
  { preamble }: Target,
  file: string,
  bodies: readonly (readonly [string, JsonObject])[],
): readonly Written[] {
  return bodies.map(([title, body], index) => ({ title, file, line: preamble.length + index + 1, body }));
}

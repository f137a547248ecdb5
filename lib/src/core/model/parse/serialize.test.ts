import type { Path } from "../failure/issue.ts";
import type { Failure, Result } from "everturn";
import type { IssueCode, StoredType } from "everturn/advanced";

import { append, fromJson, fromMessages, MisuseError, orThrow, parse, newSession, toJson, user } from "everturn";
import { request, imageRequest, storedVersion, toolCall, toolSpec } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { image } from "../message/image.ts";
import { message } from "../message/message.ts";
import { thread } from "../message/thread.ts";
import { storedTypes } from "./parse.ts";
import { fromTagged, maxTextLength, toTagged } from "./serialize.ts";

function issuesOf(result: Result<unknown>): readonly (readonly [Path, IssueCode])[] {
  const failure: Failure | null = result.ok ? null : result.failure;
  if (failure === null || failure.type !== "validation_error") return [];
  expect(failure.reason).toBe("invalid_data");
  return failure.issues.map(({ path, code }) => [path, code] as const);
}

describe("the envelope", () => {
  test("[allm 89] has the type tag, the version and every field", () => {
    expect(toTagged("thread", fromMessages([{ role: "user", content: "hi" }]))).toEqual({
      everturn: "thread",
      version: storedVersion,
      data: {
        messages: [{ role: "user", content: "hi", id: null, name: null, origin: null, metadata: {} }],
        metadata: {},
      },
    });
  });

  test("[allm 89] exists for every data type of the source system", () => {
    const names: readonly StoredType[] = [
      ...(["message", "tool", "tool_call", "request", "reply", "thread", "session", "step_result"] as const),
      ...(["chat_result", "usage", "model_ref", "failure", "image", "image_request", "image_response"] as const),
      ...(["image_usage", "part"] as const),
    ];
    expect(storedTypes).toEqual(expect.arrayContaining([...names]));
  });

  test("[allm 90] an image is stored with its source, and a size as two numbers", () => {
    const cat = image({ source: { type: "base64", data: "aGk=" }, mimeType: "image/png" });
    expect(toTagged("image", cat).data).toMatchObject({ source: { type: "base64", data: "aGk=" } });
    const asked = imageRequest("a cat", { size: { width: 512, height: 256 } });
    expect(toTagged("image_request", asked).data).toMatchObject({ size: { width: 512, height: 256 } });
  });

  test("tool calls are restored as tool calls, not as plain objects", () => {
    const call = toolCall({ id: "c1", name: "weather", arguments: { city: "Rome" }, rawArguments: '{"city":"Rome"}' });
    const said = message({ role: "assistant", content: "", toolCalls: [call] });
    const restored = orThrow(fromJson(toJson("message", said), { as: "message" }));
    expect(restored.role === "assistant" && restored.toolCalls).toEqual([call]);
  });
});

describe("[allm 91] [allm 93] invalid text", () => {
  const rows: readonly (readonly [string, string, Path, IssueCode])[] = [
    ["text that is no JSON", "{", ["json"], "malformed"],
    ["no text", "", ["json"], "malformed"],
    ["JSON without a tag", '{"id":null}', ["format"], "missing_type_tag"],
    ["JSON that is no object", "[1]", ["format"], "missing_type_tag"],
    ["a tag without data", '{"everturn":"session","version":1}', ["data"], "missing"],
    ["a tag without a version", '{"everturn":"session","data":{}}', ["version"], "invalid_type"],
    ["a version that is no number", '{"everturn":"session","version":"1","data":{}}', ["version"], "invalid_type"],
    ["a tag that is no string", '{"everturn":1,"version":1,"data":{}}', ["everturn"], "invalid_type"],
    ["data that is no object", '{"everturn":"session","version":1,"data":5}', [], "invalid_type"],
    ["a word outside a closed list", '{"everturn":"session","version":1,"data":{"status":"x"}}', ["status"], "unknown"],
    ["an unknown field", '{"everturn":"thread","version":1,"data":{"mesages":[]}}', ["mesages"], "unknown_field"],
    [
      "an unknown image source",
      '{"everturn":"image","version":1,"data":{"source":{"type":"fax"}}}',
      ["source", "type"],
      "unknown",
    ],
  ];

  test.each(rows)("%s", (_, text, path, code) => {
    expect(issuesOf(fromJson(text))).toEqual([[path, code]]);
  });

  test("an unknown type name is a failure", () => {
    const name = JSON.parse('"sesion"');
    expect(issuesOf(fromJson("{}", { as: name }))).toEqual([[[], "unknown_type_tag"]]);
    expect(issuesOf(fromJson("{}", { as: JSON.parse('"constructor"') }))).toEqual([[[], "unknown_type_tag"]]);
    expect(issuesOf(parse(name, {}))).toEqual([[[], "unknown_type_tag"]]);
  });

  test("another type than requested is a failure", () => {
    expect(issuesOf(fromJson(toJson("thread", thread()), { as: "session" }))).toEqual([
      [["format"], "unknown_type_tag"],
    ]);
  });

  test("the failure does not contain the text", () => {
    const result = fromJson('{"apiKey": sk-secret-1234}');
    expect(JSON.stringify(result)).not.toContain("secret");
  });

  test("a value that is not a string is a failure", () => {
    expect(issuesOf(fromJson(JSON.parse("null")))).toEqual([[["json"], "invalid_type"]]);
  });
});

test("a number that overflows is a failure", () => {
  for (const temperature of [Number.NaN, Infinity, -Infinity]) {
    expect(issuesOf(fromTagged({ messages: [], temperature }, { as: "request" }))).toEqual([
      [["temperature"], "invalid_type"],
    ]);
  }
});

describe("[allm 92] untagged, unknown and newer data", () => {
  test("untagged JSON is read as the type that the caller names", () => {
    expect(orThrow(fromJson('{"id":"s1"}', { as: "session" })).id).toBe("s1");
  });

  test("data with an unknown tag or of a newer version is returned unchanged", () => {
    expect(fromJson('{"everturn":"hologram","version":1,"data":[1]}')).toEqual({
      ok: true,
      value: { known: false, type: "hologram", version: 1, data: [1] },
    });
    expect(fromJson('{"everturn":"session","version":99,"data":{"mood":"good"}}')).toEqual({
      ok: true,
      value: { known: false, type: "session", version: 99, data: { mood: "good" } },
    });
  });

  test("a newer version is a failure if the caller names the type", () => {
    const result = fromJson('{"everturn":"session","version":99,"data":{}}', { as: "session" });
    expect(issuesOf(result)).toEqual([[["version"], "newer_version"]]);
    expect(JSON.stringify(result)).toContain(`version 99; this release reads versions up to ${storedVersion}`);
  });
});

describe("[allm 93] toJson throws with the path for values that are not JSON", () => {
  const circular: { self?: unknown } = {};
  circular.self = circular;
  const rows: readonly (readonly [string, unknown, Path])[] = [
    ["a function", { context: { callback: () => 1 } }, ["context", "callback"]],
    ["a date", { context: { at: new Date(0) } }, ["context", "at"]],
    ["a map", { context: { seen: new Map() } }, ["context", "seen"]],
    ["an instance of a class", { context: { db: new URL("file:///db") } }, ["context", "db"]],
    ["a cycle", { context: circular }, ["context", "self"]],
    ["a bigint", { context: { n: 1n } }, ["context", "n"]],
    ["a symbol", { context: { s: Symbol("s") } }, ["context", "s"]],
    ["not a number", { metadata: { n: Number.NaN } }, ["metadata", "n"]],
    ["infinity", { metadata: { n: Infinity } }, ["metadata", "n"]],
    ["undefined in a map", { metadata: { x: undefined } }, ["metadata", "x"]],
    ["undefined in a list", { metadata: { list: [1, undefined] } }, ["metadata", "list", 1]],
    ["a hole in a list", { metadata: { list: Array.from({ length: 1 }).fill(undefined) } }, ["metadata", "list", 0]],
    ["a key", { context: { apiKey: "sk-1" } }, ["context", "apiKey"]],
    [
      "a key in another spelling",
      { metadata: { headers: { "X-API-Key": "sk-1" } } },
      ["metadata", "headers", "X-API-Key"],
    ],
    ["a key with its owner's name", { metadata: { OPENAI_API_KEY: "sk-1" } }, ["metadata", "OPENAI_API_KEY"]],
    ["a token", { metadata: { list: [{ access_token: "sk-1" }] } }, ["metadata", "list", 0, "access_token"]],
    ["a header as a list", { context: { "Set-Cookie": ["sk-1"] } }, ["context", "Set-Cookie"]],
    ["a bearer token under any name", { context: { auth: "Bearer sk-12345678" } }, ["context", "auth"]],
    ["an authorization header", { context: { authorization: "Bearer x" } }, ["context", "authorization"]],
  ];

  test.each(rows)("%s", (_, fields, path) => {
    const value = { ...newSession(), ...JSON.parse("{}"), ...Object(fields) };
    let thrown: unknown = null;
    try {
      toJson("session", value);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(MisuseError);
    expect(thrown).toMatchObject({ reason: "not_serializable", path });
    expect(String(thrown)).not.toContain("sk-1");
  });

  test("credential names are allowed in schemas and in call arguments", () => {
    const login = toolSpec({
      name: "login",
      description: "Logs in.",
      schema: { type: "object", properties: { apiKey: { type: "string" } } },
    });
    expect(toJson("tool", login)).toContain("apiKey");
    const call = toolCall({ id: "c1", name: "login", arguments: { apiKey: "from the model" } });
    expect(toJson("tool_call", call)).toContain("from the model");
    expect(() => toJson("request", request([user("hi")], { options: { apiKey: "sk-1" } }))).toThrow(MisuseError);
  });

  test("the message contains every invalid path", () => {
    const value = { ...newSession(), context: { a: () => 1, b: 2n } };
    expect(() => toJson("session", value)).toThrow(
      "this session cannot be stored: context.a: a function cannot be stored as JSON; context.b: a bigint cannot be stored as JSON",
    );
  });
});

describe("parsed values are copies", () => {
  test("a parsed value shares no object with its input", () => {
    const input = { metadata: { tags: ["a"] } };
    const parsed = orThrow(parse("thread", input));
    input.metadata.tags.push("b");
    expect(parsed.metadata).toEqual({ tags: ["a"] });
  });

  test("toJSON of an array is not called", () => {
    class Disguise extends Array<number> {
      toJSON(): unknown {
        return { apiKey: "sk-1" };
      }
    }
    expect(toJson("thread", { messages: [], metadata: { list: Disguise.from([1]) } })).toContain('{"list":[1]}');
  });

  test("a getter is read once", () => {
    let asked = 0;
    const sly = Object.defineProperty({}, "apiKey", { enumerable: true, get: () => (asked++ === 0 ? 1 : "sk-1") });
    expect(toJson("thread", { messages: [], metadata: Object(sly) })).toContain('{"apiKey":1}');
  });

  test("shared defaults are frozen", () => {
    const shared: unknown[] = [newSession().thread.messages, request([]).tools, chatMessages()];
    for (const list of shared) expect(() => Array.isArray(list) && list.push("leak")).toThrow(TypeError);
    expect(newSession().thread.messages).toEqual([]);
  });
});

function chatMessages(): unknown {
  const said = message({ role: "assistant", content: "" });
  return said.role === "assistant" ? said.toolCalls : null;
}

describe("accepted values can be stored", () => {
  test("the deepest message fits into a session, and the deepest call into an event", () => {
    let deep: unknown = 1;
    for (let level = 0; level < 127; level += 1) deep = [deep];
    const posted = orThrow(parse("message", { role: "user", content: "hi", metadata: { deep } }));
    expect(() => toJson("session", append(newSession(), posted))).not.toThrow();
    expect(parse("message", { role: "user", content: "hi", metadata: { deep: [deep] } }).ok).toBe(false);
  });

  test("defaults count toward the limit of values", () => {
    const many = { messages: Array.from({ length: 400_000 }, () => ({ role: "user", content: "" })) };
    expect(issuesOf(parse("thread", many)).at(0)?.[1]).toBe("too_large");
  });

  test("toJson throws for text that fromJson would reject", () => {
    const long = thread({ metadata: { text: Array.from({ length: 40 }, () => "x".repeat(2 ** 20)) } });
    expect(() => toJson("thread", long)).toThrow(/takes \d+ characters; at most 33554432 are read back/);
  });
});

describe("untrusted input", () => {
  test("text with ten million objects is rejected before it is parsed", () => {
    const crowd = `{"metadata":{"a":[${"{},".repeat(10_000_000)}{}]}}`;
    expect(issuesOf(fromJson(crowd, { as: "thread" }))).toEqual([[["json"], "too_large"]]);
  });

  test("commas and brackets inside strings do not count as values", () => {
    const text = toJson("thread", fromMessages([user(',[{\\"'.repeat(2_000_000))]));
    expect(fromJson(text, { as: "thread" }).ok).toBe(true);
  });

  test("a long key is truncated in the path", () => {
    const key = "k".repeat(1_000_000);
    const text = JSON.stringify({ metadata: { [key]: Array.from({ length: 100 }, () => ({ apiKey: "s" })) } });
    expect(JSON.stringify(fromJson(text, { as: "thread" })).length).toBeLessThan(50_000);
    expect(
      JSON.stringify(fromJson(JSON.stringify({ everturn: key, version: 1, data: {} }), { as: "thread" })).length,
    ).toBeLessThan(1000);
  });

  test("__proto__ and constructor are ordinary keys: no prototype pollution", () => {
    const text = '{"metadata":{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}}';
    const restored = orThrow(fromJson(text, { as: "thread" }));
    expect(Object.keys(restored.metadata)).toEqual(["__proto__", "constructor"]);
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
    expect(JSON.stringify(restored.metadata)).toBe(JSON.stringify(JSON.parse(text).metadata));
    expect(toJson("thread", restored)).toContain('"__proto__":{"polluted":true}');
  });

  test("__proto__ is an unknown field, and inherited properties are ignored", () => {
    expect(issuesOf(fromJson('{"__proto__":{"messages":[]}}', { as: "thread" }))).toEqual([
      [["__proto__"], "unknown_field"],
    ]);
    const ancestor: object = Object.assign(Object.create(null), { everturn: "thread", version: 1, data: {} });
    const heir: unknown = Object.create(ancestor);
    expect(issuesOf(fromTagged(heir))).toEqual([[["format"], "missing_type_tag"]]);
    const relative: unknown = Object.create(Object.assign(Object.create(null), { role: "user", content: "hi" }));
    expect(issuesOf(fromTagged(relative, { as: "message" }))).toEqual([[["role"], "required"]]);
  });

  test("nesting beyond the limit is an issue", () => {
    const deep = `{"metadata":{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}}`;
    const [issue] = issuesOf(fromJson(deep, { as: "thread" }));
    expect(issue?.[1]).toBe("too_deep");
    const cause = `${'{"name":"E","message":"m","cause":'.repeat(10_000)}null${"}".repeat(10_000)}`;
    const failure = `{"type":"session_error","reason":"unknown_tool_call_id","message":"m","cause":${cause}}`;
    expect(issuesOf(fromJson(failure, { as: "failure" })).at(0)?.[1]).toBe("too_deep");
  });

  test("a million invalid messages give a hundred issues", () => {
    const result = fromTagged({ messages: Array.from({ length: 1_000_000 }).fill(null) }, { as: "thread" });
    expect(issuesOf(result)).toHaveLength(100);
  });

  test("reading stops at the hundredth issue", () => {
    const broken: unknown[] = Array.from({ length: 1000 }).fill(null);
    let looked = false;
    Object.defineProperty(broken, 500, { get: () => (looked = true) });
    expect(issuesOf(fromTagged({ messages: broken }, { as: "thread" }))).toHaveLength(100);
    expect(looked).toBe(false);
  });

  test("reading stops in an array with a length of four billion", () => {
    const sparse: unknown[] = [];
    sparse.length = 2 ** 32 - 1;
    expect(issuesOf(fromTagged({ messages: sparse }, { as: "thread" }))).toHaveLength(100);
    expect(issuesOf(fromTagged({ metadata: { sparse } }, { as: "thread" }))).toHaveLength(100);
  });

  test("text beyond the length limit is not parsed", () => {
    // V8 represents a repeated string as a rope, so this does not allocate its length.
    const long = " ".repeat(maxTextLength + 1);
    expect(issuesOf(fromJson(long))).toEqual([[["json"], "too_large"]]);
  });
});

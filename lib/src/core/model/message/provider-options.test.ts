// Provider options: what the constructors accept and refuse, and that they survive storage.

import type { AnthropicToolOptions, PartProviderOptions } from "everturn/advanced";

import {
  assistant,
  filePart,
  fromJson,
  fromMessages,
  imageFromUrl,
  imagePart,
  MisuseError,
  orThrow,
  parse,
  searchResultPart,
  system,
  textPart,
  toJson,
  toolResult,
  user,
} from "everturn";
import { request, toolCall, toolSpec } from "everturn/advanced";
import { describe, expect, expectTypeOf, test } from "vitest";

const breakpoint = { anthropic: { cache_control: { type: "ephemeral", ttl: "1h" } } } as const;
const photo = imageFromUrl("https://example.com/cat.png");

describe("provider options", () => {
  test("are stored with parts, messages, calls and tools, and read back unchanged", () => {
    const thread = fromMessages([
      system("Be brief.", { providerOptions: breakpoint }),
      user([
        textPart("Look.", { providerOptions: breakpoint }),
        imagePart(photo, { providerOptions: { gemini: { mediaResolution: { level: "MEDIA_RESOLUTION_HIGH" } } } }),
        filePart(
          { type: "url", url: "https://example.com/a.mp4" },
          {
            mimeType: "video/mp4",
            providerOptions: { gemini: { videoMetadata: { fps: 2, startOffset: "10s", endOffset: "12.5s" } } },
          },
        ),
      ]),
      assistant("", {
        toolCalls: [toolCall({ id: "c", name: "f", arguments: {}, providerOptions: breakpoint })],
        providerOptions: { mistral: { prefix: true }, unlisted: { "a field": [1, null] } },
      }),
      toolResult("c", "done", { providerOptions: breakpoint }),
    ]);
    expect(orThrow(fromJson(toJson("thread", thread), { as: "thread" }))).toEqual(thread);
    expect(thread.messages[3]).toMatchObject({ providerOptions: breakpoint });
  });

  test("are absent if there are none, so that stored values and digests of older releases keep their form", () => {
    expect(textPart("hi")).not.toHaveProperty("providerOptions");
    expect(user("hi")).not.toHaveProperty("providerOptions");
    expect(toolCall({ id: "c", name: "f", arguments: {} })).not.toHaveProperty("providerOptions");
    expect(toolSpec({ name: "f", description: "", schema: {} })).not.toHaveProperty("providerOptions");
    expect(request([user("hi")]).providerOptions).toEqual({});
  });

  // Spreading an `object` hides the fields from the compiler, as a caller without one would.
  const untyped = (providerOptions: object): object => ({ providerOptions });
  const part = (options: object) => () => textPart("hi", { ...untyped(options) });
  test.each<[string, () => unknown, string]>([
    ["not an object", part({ anthropic: "x" }), "providerOptions.anthropic"],
    ["cache_control", part({ anthropic: { cache_control: { type: "persistent" } } }), "cache_control.type"],
    ["ttl", part({ anthropic: { cache_control: { type: "ephemeral", ttl: 5 } } }), "cache_control.ttl"],
    ["citations", part({ anthropic: { citations: true } }), "anthropic.citations"],
    ["fps", part({ gemini: { videoMetadata: { fps: "2" } } }), "videoMetadata.fps"],
    ["not JSON", part({ other: { when: new Date(0) } }), "other.when"],
    ["a credential", part({ other: { api_key: "sk-1" } }), "other.api_key"],
    ["prefix", () => assistant("a", { ...untyped({ mistral: { prefix: "yes" } }) }), "mistral.prefix"],
    [
      "strict",
      () => toolSpec({ name: "f", description: "", schema: {}, ...untyped({ openai: { strict: 1 } }) }),
      "openai.strict",
    ],
    ["top_k", () => request([user("a")], { ...untyped({ anthropic: { top_k: "5" } }) }), "anthropic.top_k"],
  ])("of the wrong type are refused: %s", (_, make, path) => {
    expect(make).toThrow(MisuseError);
    expect(make).toThrow(path);
  });

  test("of data from outside are reported with their path", () => {
    const result = parse("message", { role: "user", content: "hi", providerOptions: { mistral: { prefix: 1 } } });
    expect(result).toMatchObject({
      ok: false,
      failure: { issues: [{ path: ["providerOptions", "mistral", "prefix"] }] },
    });
  });

  test("of a tool may show example arguments with any names", () => {
    const input_examples = [{ user: "ada", password: "example" }];
    const spec = toolSpec({
      name: "f",
      description: "",
      schema: {},
      providerOptions: { anthropic: { input_examples } },
    });
    expect(spec.providerOptions?.anthropic?.input_examples).toEqual(input_examples);
  });

  test("have types for known fields and accept unknown ones", () => {
    expectTypeOf<{
      anthropic: { cache_control: { type: "ephemeral" }; new_field: 1 };
    }>().toExtend<PartProviderOptions>();
    expectTypeOf<{ unlisted: { any: "json" } }>().toExtend<PartProviderOptions>();
    expectTypeOf<{ anthropic: { cache_control: "5m" } }>().not.toExtend<PartProviderOptions>();
    expectTypeOf<{ gemini: { videoMetadata: { fps: "1" } } }>().not.toExtend<PartProviderOptions>();
    expectTypeOf<{ strict: "yes" }>().not.toExtend<AnthropicToolOptions>();
  });
});

describe("searchResultPart", () => {
  const found = { source: "https://example.com/rome", title: "Rome", content: ["Rome has 7 hills.", "It is old."] };

  test("is text with the title and the source, and a search_result block for Anthropic", () => {
    const part = searchResultPart(found);
    expect(part.text).toBe("Rome\nhttps://example.com/rome\n\nRome has 7 hills.\nIt is old.");
    expect(part.providerOptions).toEqual({
      anthropic: {
        type: "search_result",
        source: found.source,
        title: "Rome",
        content: [
          { type: "text", text: "Rome has 7 hills." },
          { type: "text", text: "It is old." },
        ],
        citations: { enabled: true },
      },
    });
  });

  test("keeps other options and fields", () => {
    const part = searchResultPart(
      { ...found, citations: false },
      { metadata: { rank: 1 }, providerOptions: breakpoint },
    );
    expect(part).toMatchObject({
      metadata: { rank: 1 },
      providerOptions: { anthropic: { citations: { enabled: false }, cache_control: { type: "ephemeral" } } },
    });
  });

  test("refuses a wrong field", () => {
    const misspelt: object = { url: "x" };
    expect(() => searchResultPart({ ...found, ...misspelt })).toThrow(/url: unknown field/);
  });
});

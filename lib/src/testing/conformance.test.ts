// The conformance suites, run against the implementations of the library (all cases pass) and against implementations
// that violate one rule each (exactly the cases of that rule fail).

import type { FakeStep } from "../core/adapters/fake.ts";
import type { CellResult, CellRun } from "../core/engine/internal.ts";
import type { AdapterScenario, AdapterUnderTest } from "./adapter-suite.ts";
import type { ConformanceCase } from "./conformance.ts";
import type { ImageAdapterScenario, ImageAdapterUnderTest } from "./image-adapter-suite.ts";
import type { CodeExecutor, ToolExecutor, ToolResultEncoder, ImageResponse, ModelEvent } from "everturn/advanced";

import { imageFromBase64 } from "everturn";
import { describe, expect, test } from "vitest";

import { quickjs } from "../bridges/quickjs/quickjs.ts";
import { fakeImages } from "../core/adapters/fake-images.ts";
import { fake } from "../core/adapters/fake.ts";
import { encodeAsJson } from "../core/run/internal.ts";
import { adapterSuite, codeExecutorSuite, encoderSuite, executorSuite, imageAdapterSuite } from "./index.ts";

function rows(suite: readonly ConformanceCase[]): readonly [string, ConformanceCase["run"]][] {
  return suite.map(({ name, run }) => [name, run]);
}

/** The names of the cases that fail. Each must fail with an error that states expectation, actual value and rule. */
async function failing(suite: readonly ConformanceCase[]): Promise<readonly string[]> {
  const names: string[] = [];
  for (const { name, run } of suite) {
    const error: unknown = await run().then(
      () => null,
      (thrown: unknown) => thrown,
    );
    if (error === null) continue;
    expect(error).toBeInstanceOf(Error);
    expect(String(error)).toMatch(/expected .+; got .*\. The rule: ./s);
    names.push(name);
  }
  return names;
}

function scriptOf(scenario: AdapterScenario): readonly FakeStep[] {
  switch (scenario.type) {
    case "text":
      return [
        ...textSteps(scenario.texts),
        ...(scenario.usage ? [{ type: "usage", usage: scenario.usage } as const] : []),
      ];
    case "tool_calls":
      return scenario.calls.map((call) => ({ type: "tool_call", ...call }));
    case "streamed_arguments":
      return scenario.pieces.map((argumentsDelta) => {
        const { id, name } = scenario;
        return { type: "tool_call_delta", id, name, argumentsDelta };
      });
    case "failure": {
      const { reason, status, retryAfterMs, requestId } = scenario;
      return [
        {
          type: "error",
          reason,
          ...(status === null ? {} : { status }),
          ...(retryAfterMs === null ? {} : { retryAfterMs }),
          ...(requestId === null ? {} : { requestId }),
        },
      ];
    }
    case "preflight": {
      const { reason } = scenario;
      return [{ type: "preflight_error", reason: reason === "missing_key" ? "authentication_failed" : reason }];
    }
    case "interrupted":
      return [...textSteps(scenario.texts), { type: "cut" }];
    case "stalled":
      return [...textSteps(scenario.texts), { type: "delay", ms: 60_000 }];
  }
}

function textSteps(texts: readonly string[]): readonly FakeStep[] {
  return texts.map((text) => ({ type: "text", text }));
}

function fakeFor(scenario: AdapterScenario): AdapterUnderTest {
  return fake({ script: scriptOf(scenario) });
}

/** A fake adapter whose events are changed in one kind of scenario. */
function changed(type: AdapterScenario["type"], change: (event: ModelEvent, apiKey: string) => readonly ModelEvent[]) {
  return (scenario: AdapterScenario): AdapterUnderTest => {
    const adapter = fakeFor(scenario);
    if (scenario.type !== type) return adapter;
    return {
      provider: "changed",
      stream: async function* (request, call) {
        for await (const batch of adapter.stream(request, call)) {
          yield batch.flatMap((event) => change(event, call.apiKey ?? ""));
        }
      },
    };
  };
}

/** A fake adapter whose stream is replaced in one kind of scenario. */
function replaced(type: AdapterScenario["type"], stream: AdapterUnderTest["stream"]) {
  return (scenario: AdapterScenario): AdapterUnderTest =>
    scenario.type === type ? { provider: "replaced", stream } : fakeFor(scenario);
}

const greeting: readonly ModelEvent[] = [
  { type: "text_delta", id: null, delta: "Hel" },
  { type: "text_delta", id: null, delta: "lo" },
];
const never = new Promise<never>(() => undefined);

describe("[allm 101] [allm 102] adapterSuite", () => {
  test.each(rows(adapterSuite(fakeFor)))("fake: %s", (_, run) => run());

  test.each<[string, (scenario: AdapterScenario) => AdapterUnderTest, readonly string[]]>([
    [
      "sends its request before it is read",
      (scenario) => {
        const calls: unknown[] = [];
        const adapter = fakeFor(scenario);
        return {
          provider: "eager",
          calls,
          stream: (request, call) => {
            calls.push(request);
            return adapter.stream(request, call);
          },
        };
      },
      ["a stream that is not read sends no request, and stream() does not throw"],
    ],
    [
      "omits message_started",
      changed("text", (event) => (event.type === "message_started" ? [] : [event])),
      ["a reply begins with message_started"],
    ],
    [
      "omits message_started before a failure",
      changed("failure", (event) => (event.type === "message_started" ? [] : [event])),
      ["an error response of the provider follows message_started"],
    ],
    [
      "loses a text delta",
      changed("text", (event) => (event.type === "text_delta" && event.delta === "lo " ? [] : [event])),
      ["the deltas and the completed message have the full text"],
    ],
    [
      "emits two terminal events",
      changed("text", (event) => (event.type === "message_completed" ? [event, event] : [event])),
      ["a reply has one terminal event, and only usage and raw chunks follow it"],
    ],
    [
      "reports another finish reason for a text",
      changed("text", (event) => [event.type === "message_completed" ? { ...event, finishReason: "other" } : event]),
      ["a text reply has the finish reason stop"],
    ],
    [
      "reports no usage",
      changed("text", (event) => (event.type === "usage" ? [] : [event])),
      ["the usage of a call is reported"],
    ],
    [
      "always emits raw chunks",
      changed("text", (event) => (event.type === "text_delta" ? [{ type: "raw_chunk", chunk: {} }, event] : [event])),
      ["raw chunks are not emitted unless they are requested"],
    ],
    [
      "does not parse arguments",
      changed("tool_calls", (event) => [event.type === "tool_call_completed" ? { ...event, arguments: null } : event]),
      ["each tool call is started, then completed, with parsed arguments"],
    ],
    [
      "changes rawArguments",
      changed("tool_calls", (event) => [
        event.type === "tool_call_completed" ? { ...event, rawArguments: "{ }" } : event,
      ]),
      ["rawArguments has the arguments as the model wrote them"],
    ],
    [
      "loses an arguments delta",
      changed("streamed_arguments", (event) =>
        event.type === "tool_call_delta" && event.argumentsDelta === "2]}" ? [] : [event],
      ),
      ["streamed arguments add up"],
    ],
    [
      "reports invalid arguments as an empty object",
      changed("streamed_arguments", (event) => [
        event.type === "tool_call_completed" ? { ...event, arguments: event.arguments ?? {} } : event,
      ]),
      ["arguments that are not JSON are null, and rawArguments has their text"],
    ],
    [
      "reports stop after tool calls",
      changed("tool_calls", (event) => [
        event.type === "message_completed" ? { ...event, finishReason: "stop" } : event,
      ]),
      ["a reply with tool calls has the finish reason tool_calls"],
    ],
    [
      "reports a rate limit as not retryable",
      changed("failure", (event) =>
        event.type === "error" && event.error.type === "adapter_error" && event.error.reason === "rate_limited"
          ? [{ ...event, error: { ...event.error, retryable: false } }]
          : [event],
      ),
      ["rate_limited is an error event with the details of the provider"],
    ],
    [
      "omits the request id",
      changed("failure", (event) =>
        event.type === "error" && event.error.type === "adapter_error" && event.error.status === 503
          ? [{ ...event, error: { ...event.error, requestId: null } }]
          : [event],
      ),
      ["provider_unavailable is an error event with the details of the provider"],
    ],
    [
      "reports an interrupted stream as complete",
      (scenario) => fakeFor(scenario.type === "interrupted" ? { ...scenario, type: "text" } : scenario),
      ["an interrupted stream is not reported as complete"],
    ],
    [
      "does not resolve return()",
      replaced("stalled", (_, { signal }) => ({
        [Symbol.asyncIterator]: () => {
          let batches = 0;
          return {
            next: async () => {
              batches += 1;
              if (batches === 1) return { done: false, value: greeting };
              if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
              return { done: true, value: undefined };
            },
            return: () => never,
          };
        },
      })),
      ["returning early closes a stalled stream, at once and exactly once"],
    ],
    [
      "closes its stream twice",
      (scenario) => {
        const adapter = fakeFor(scenario);
        return {
          ...adapter,
          get closed() {
            return 2 * (adapter.closed ?? 0);
          },
        };
      },
      [
        "returning early closes a stalled stream, at once and exactly once",
        "aborting the signal ends a stalled stream, at once and exactly once",
      ],
    ],
    ["is wrapped without a change", changed("preflight", (event) => [event]), []],
    [
      "emits a preflight error as an event",
      (scenario) =>
        fakeFor(
          scenario.type === "preflight" && scenario.reason === "invalid_request"
            ? { type: "failure", reason: "invalid_request", status: null, retryAfterMs: null, requestId: null }
            : scenario,
        ),
      ["invalid_request is thrown before the first event"],
    ],
    [
      "emits an unknown event",
      changed("interrupted", (event) => [event, ...JSON.parse('[{ "type": "ping" }]')]),
      ["a stream emits model events only"],
    ],
    [
      "discloses the API key",
      changed("tool_calls", (event, apiKey) => [
        event.type === "message_completed" ? { ...event, rawFinishReason: `Bearer ${apiKey}` } : event,
      ]),
      ["the API key of a call is in no event and no error"],
    ],
  ])("the suite fails for an adapter that %s", async (_, make, names) => {
    expect(await failing(adapterSuite(make))).toEqual(names);
  });

  test("the suite fails for an adapter that ignores the signal", async () => {
    const deaf = replaced("stalled", async function* () {
      yield greeting;
      await never;
    });
    const suite = adapterSuite(deaf).filter(({ name }) => name.includes("stalled"));
    expect(await failing(suite)).toEqual(["aborting the signal ends a stalled stream, at once and exactly once"]);
  });
});

function fakeImagesFor(scenario: ImageAdapterScenario): ImageAdapterUnderTest {
  switch (scenario.type) {
    case "images": {
      const images = Array.from({ length: scenario.count }, () => imageFromBase64("Y2F0", "image/png"));
      return fakeImages({ script: [{ type: "images", images }] });
    }
    case "failure": {
      const { reason, status, retryAfterMs, requestId } = scenario;
      return fakeImages({ script: [{ type: "error", reason, status, retryAfterMs, requestId }] });
    }
  }
}

/** A fake image adapter whose responses are changed. */
function changedImages(change: (response: ImageResponse, apiKey: string) => ImageResponse) {
  return (scenario: ImageAdapterScenario): ImageAdapterUnderTest => {
    const adapter = fakeImagesFor(scenario);
    const { provider, operations, generate } = adapter;
    return {
      provider,
      operations,
      generate: async (request, call) => change(await generate(request, call), call.apiKey ?? ""),
    };
  };
}

/** A fake image adapter that lists other operations than it has. */
function withOperations(operations: ImageAdapterUnderTest["operations"]) {
  return (scenario: ImageAdapterScenario): ImageAdapterUnderTest => ({ ...fakeImagesFor(scenario), operations });
}

describe("[allm 101] imageAdapterSuite", () => {
  test.each(rows(imageAdapterSuite(fakeImagesFor)))("fakeImages: %s", (_, run) => run());
  test.each(rows(imageAdapterSuite(withOperations(["edit"]))))("fakeImages that can only edit: %s", (_, run) => run());

  test.each<[string, (scenario: ImageAdapterScenario) => ImageAdapterUnderTest, readonly string[]]>([
    [
      "lists an unknown operation",
      withOperations(["generate", ...JSON.parse('["upscale"]')]),
      ["operations lists operations of the library, each once"],
    ],
    [
      "sends a request for an operation it does not list",
      (scenario) => ({ ...withOperations(["generate"])(scenario), calls: ["the first"] }),
      ["an operation that is not listed is rejected before a request is sent"],
    ],
    [
      "omits the details of an error response",
      (scenario) =>
        fakeImagesFor(scenario.type === "failure" ? { ...scenario, retryAfterMs: null, requestId: null } : scenario),
      ["a failure has its reason, status, retry delay and request id"],
    ],
    [
      "returns a value that is not JSON",
      changedImages((response) => Object.assign({ ...response }, { client: { open: true } })),
      ["a response survives a JSON round trip, and the request is unchanged"],
    ],
    [
      "counts no images",
      changedImages((response) => ({ ...response, usage: { ...response.usage, images: 0 } })),
      ["usage counts at least one image"],
    ],
    [
      "returns more images than requested",
      changedImages((response) =>
        response.images.length === 1 ? response : { ...response, images: [...response.images, ...response.images] },
      ),
      ["a request for four images returns one to four"],
    ],
    [
      "discloses the API key",
      changedImages((response, apiKey) => ({ ...response, model: `m ${apiKey}` })),
      ["the API key of a call is in no response and no error"],
    ],
  ])("the suite fails for an adapter that %s", async (_, make, names) => {
    expect(await failing(imageAdapterSuite(make))).toEqual(names);
  });
});

describe("[allm 101] executorSuite", () => {
  const identity: ToolExecutor = (_tool, _args, _context, run) => run();

  test.each(rows(executorSuite(identity)))("identity: %s", (_, run) => run());

  test.each<[string, ToolExecutor, readonly string[]]>([
    [
      "returns a promise of the generator",
      async (_tool, _args, _context, run) => run(),
      [
        "a generator reports its progress and returns its value",
        "an async generator reports its progress and returns its value",
      ],
    ],
    [
      "swallows errors",
      (_tool, _args, _context, run) => {
        try {
          return run();
        } catch {
          return null;
        }
      },
      ["an error that a handler throws is passed on unchanged"],
    ],
    [
      "changes the arguments",
      (_tool, args, _context, run) => {
        Object.assign(args, { city: "Rome" });
        return run();
      },
      ["arguments and context reach the handler unchanged"],
    ],
    [
      "runs the handler twice",
      (_tool, _args, _context, run) => {
        const first = run();
        if (typeof first === "number") run();
        return first;
      },
      ["the handler runs exactly once, before the executor returns its value"],
    ],
    [
      "copies directives",
      (_tool, _args, _context, run) => {
        const out = run();
        return typeof out === "object" && out !== null && "question" in out ? { ...out } : out;
      },
      ["askUser is passed on unchanged"],
    ],
  ])("the suite fails for an executor that %s", async (_, execute, names) => {
    expect(await failing(executorSuite(execute))).toEqual(names);
  });
});

describe("codeExecutorSuite", () => {
  test.each(rows(codeExecutorSuite(() => quickjs())))("quickjs: %s", (_, run) => run());

  /** QuickJS with changed results or changed cells. */
  function tampered(
    result: (result: CellResult, cell: CellRun) => CellResult,
    cell: (cell: CellRun) => CellRun = (same) => same,
  ): () => CodeExecutor {
    const inner = quickjs();
    return () => ({ ...inner, run: async (given) => result(await inner.run(cell(given)), given) });
  }
  const asIs = (result: CellResult) => result;
  let runs = 0;

  test.each<[string, () => CodeExecutor, readonly string[]]>([
    [
      "loses observations",
      tampered((result) => (result.type === "finished" ? { ...result, observations: [] } : result)),
      ["the observations have what a cell prints, in order", "a failed call throws at the call and can be caught"],
    ],
    [
      "reports giving up as a value",
      tampered((result) =>
        result.type === "finished" && result.finish !== null
          ? { ...result, finish: { ...result.finish, type: "value" } }
          : result,
      ),
      ["a cell returns the value it gives up with"],
    ],
    [
      "returns concurrent calls one by one",
      tampered((result) => (result.type === "calls" ? { ...result, calls: result.calls.slice(0, 1) } : result)),
      ["concurrent calls are returned together, in call order"],
    ],
    [
      "returns different results in each run",
      tampered((result, { code }) => {
        if (result.type !== "finished" || !code.includes("random")) return result;
        runs += 1;
        return { ...result, finish: { type: "value", value: runs } };
      }),
      ["a cell has no clock and no random numbers"],
    ],
    [
      "does not limit output",
      tampered(asIs, (cell) => (cell.code.includes("more") ? { ...cell, code: 'console.log("more");' } : cell)),
      ["endless output exceeds the output limit"],
    ],
    [
      "reports every reason as failed",
      tampered((result) => (result.type === "failed" ? { ...result, reason: "failed" } : result)),
      [
        "a call of another tool than the recorded one ends the cell as diverged",
        "a call with other arguments than the recorded one ends the cell as diverged",
        "a recorded call that the cell does not make ends it as diverged",
        "an endless loop exceeds the instruction limit",
        "endless calls exceed the call limit, which includes recorded calls",
        "endless output exceeds the output limit",
      ],
    ],
  ])("the suite fails for an executor that %s", async (_, make, names) => {
    expect(await failing(codeExecutorSuite(make))).toEqual(names);
  });
});

describe("[allm 101] encoderSuite", () => {
  test.each(rows(encoderSuite(encodeAsJson)))("encodeAsJson: %s", (_, run) => run());

  let shown = 0;

  test.each<[string, ToolResultEncoder, readonly string[]]>([
    [
      "quotes text",
      (result) => (result.type === "ok" ? JSON.stringify(result.value) : encodeAsJson(result)),
      ["text is encoded unchanged", "a value is encoded without its wrapper object"],
    ],
    [
      "rounds numbers",
      (result) =>
        result.type === "ok" && typeof result.value === "number"
          ? String(Math.round(result.value))
          : encodeAsJson(result),
      ["fractions are encoded as JSON without loss"],
    ],
    [
      "hides the message of a failure",
      (result) => (result.type === "ok" ? encodeAsJson(result) : '{"error":"something went wrong"}'),
      ["the message of a failure is encoded"],
    ],
    [
      "encodes the whole failure",
      (result) => (result.type === "ok" ? encodeAsJson(result) : JSON.stringify(result.failure)),
      ["the details of a failure for the program are not encoded"],
    ],
    [
      "is not deterministic",
      (result) => {
        shown += 1;
        return result.type === "ok" ? encodeAsJson(result) : `${shown}: ${result.failure.message}`;
      },
      ["encoding is deterministic"],
    ],
  ])("the suite fails for an encoder that %s", async (_, encode, names) => {
    expect(await failing(encoderSuite(encode))).toEqual(names);
  });
});

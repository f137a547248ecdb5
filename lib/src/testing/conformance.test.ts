// The suites of the kit, run against what the library brings along, and against implementations that break one rule each.

import type { FakeStep } from "../adapters/fake.ts";
import type { CellResult, CellRun } from "../engine/internal.ts";
import type {
  AdapterScenario,
  AdapterUnderTest,
  ConformanceCase,
  ImageAdapterScenario,
  ImageAdapterUnderTest,
} from "./index.ts";
import type { CodeExecutor, ToolExecutor, ToolResultEncoder } from "everturn/engine";
import type { ImageResponse, ModelEvent } from "everturn/model";

import { imageFromBase64 } from "everturn/model";
import { describe, expect, test } from "vitest";

import { fakeImages } from "../adapters/fake-images.ts";
import { fake } from "../adapters/fake.ts";
import { quickjs } from "../adapters/quickjs/quickjs.ts";
import { encodeAsJson } from "../run/internal.ts";
import { adapterSuite, codeExecutorSuite, encoderSuite, executorSuite, imageAdapterSuite } from "./index.ts";

function rows(suite: readonly ConformanceCase[]): readonly [string, ConformanceCase["run"]][] {
  return suite.map(({ name, run }) => [name, run]);
}

/** The names of the cases that throw. */
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
      return [...says(scenario.texts), ...(scenario.usage ? [{ type: "usage", usage: scenario.usage } as const] : [])];
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
      return [...says(scenario.texts), { type: "cut" }];
    case "stalled":
      return [...says(scenario.texts), { type: "delay", ms: 60_000 }];
  }
}

function says(texts: readonly string[]): readonly FakeStep[] {
  return texts.map((text) => ({ type: "text", text }));
}

function playing(scenario: AdapterScenario): AdapterUnderTest {
  return fake({ script: scriptOf(scenario) });
}

/** A fake whose events are changed on their way out, in one kind of scenario. */
function changed(type: AdapterScenario["type"], change: (event: ModelEvent, apiKey: string) => readonly ModelEvent[]) {
  return (scenario: AdapterScenario): AdapterUnderTest => {
    const adapter = playing(scenario);
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

/** An adapter of one kind of scenario replaced by another one. */
function replaced(type: AdapterScenario["type"], stream: AdapterUnderTest["stream"]) {
  return (scenario: AdapterScenario): AdapterUnderTest =>
    scenario.type === type ? { provider: "replaced", stream } : playing(scenario);
}

const greeting: readonly ModelEvent[] = [
  { type: "text_delta", id: null, delta: "Hel" },
  { type: "text_delta", id: null, delta: "lo" },
];
const never = new Promise<never>(() => undefined);

describe("[allm 101] [allm 102] adapters", () => {
  test.each(rows(adapterSuite(playing)))("fake: %s", (_, run) => run());

  test.each<[string, (scenario: AdapterScenario) => AdapterUnderTest, readonly string[]]>([
    [
      "asks before it is read",
      (scenario) => {
        const calls: unknown[] = [];
        const adapter = playing(scenario);
        return {
          provider: "eager",
          calls,
          stream: (request, call) => {
            calls.push(request);
            return adapter.stream(request, call);
          },
        };
      },
      ["a stream nobody reads makes no request, and asking for it does not throw"],
    ],
    [
      "does not say that a text begins",
      changed("text", (event) => (event.type === "message_started" ? [] : [event])),
      ["a reply begins with message_started"],
    ],
    [
      "goes straight to the failure",
      changed("failure", (event) => (event.type === "message_started" ? [] : [event])),
      ["a failure the provider answered with comes after message_started too"],
    ],
    [
      "loses a piece of text",
      changed("text", (event) => (event.type === "text_delta" && event.delta === "lo " ? [] : [event])),
      ["the deltas of a text add up to it, and so does the whole message"],
    ],
    [
      "ends twice",
      changed("text", (event) => (event.type === "message_completed" ? [event, event] : [event])),
      ["a reply has one end, and only usage and raw chunks come after it"],
    ],
    [
      "calls the end of a text by another name",
      changed("text", (event) => [event.type === "message_completed" ? { ...event, finishReason: "other" } : event]),
      ["a text ends with the reason stop"],
    ],
    [
      "keeps usage to itself",
      changed("text", (event) => (event.type === "usage" ? [] : [event])),
      ["what a call cost is reported as usage"],
    ],
    [
      "shows raw chunks to everybody",
      changed("text", (event) => (event.type === "text_delta" ? [{ type: "raw_chunk", chunk: {} }, event] : [event])),
      ["there are no raw chunks for those who did not ask"],
    ],
    [
      "does not parse arguments",
      changed("tool_calls", (event) => [event.type === "tool_call_completed" ? { ...event, arguments: null } : event]),
      ["each call is started, then completed, with its arguments parsed"],
    ],
    [
      "writes arguments anew",
      changed("tool_calls", (event) => [
        event.type === "tool_call_completed" ? { ...event, rawArguments: "{ }" } : event,
      ]),
      ["what the model wrote as arguments is kept"],
    ],
    [
      "loses a piece of arguments",
      changed("streamed_arguments", (event) =>
        event.type === "tool_call_delta" && event.argumentsDelta === "2]}" ? [] : [event],
      ),
      ["arguments that come in pieces add up"],
    ],
    [
      "takes broken arguments for none",
      changed("streamed_arguments", (event) => [
        event.type === "tool_call_completed" ? { ...event, arguments: event.arguments ?? {} } : event,
      ]),
      ["arguments that are no JSON are null, and kept as they were written"],
    ],
    [
      "says stop after calls",
      changed("tool_calls", (event) => [
        event.type === "message_completed" ? { ...event, finishReason: "stop" } : event,
      ]),
      ["calls end with the reason tool_calls"],
    ],
    [
      "never tries again",
      changed("failure", (event) =>
        event.type === "error" && event.error.type === "adapter_error" && event.error.reason === "rate_limited"
          ? [{ ...event, error: { ...event.error, retryable: false } }]
          : [event],
      ),
      ["rate_limited is an error event, with what the provider said about it"],
    ],
    [
      "forgets the id of a request",
      changed("failure", (event) =>
        event.type === "error" && event.error.type === "adapter_error" && event.error.status === 503
          ? [{ ...event, error: { ...event.error, requestId: null } }]
          : [event],
      ),
      ["provider_unavailable is an error event, with what the provider said about it"],
    ],
    [
      "takes a cut for an end",
      (scenario) => playing(scenario.type === "interrupted" ? { ...scenario, type: "text" } : scenario),
      ["a stream that breaks off is never taken for a whole reply"],
    ],
    [
      "cannot be left",
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
      ["leaving early closes a stream that has stalled, at once and once"],
    ],
    [
      "closes twice",
      (scenario) => {
        const adapter = playing(scenario);
        return {
          ...adapter,
          get closed() {
            return 2 * (adapter.closed ?? 0);
          },
        };
      },
      [
        "leaving early closes a stream that has stalled, at once and once",
        "aborting ends a stream that has stalled, at once and once",
      ],
    ],
    ["answers what was never asked", changed("preflight", (event) => [event]), []],
    [
      "does not throw what it sees by itself",
      (scenario) =>
        playing(
          scenario.type === "preflight" && scenario.reason === "invalid_request"
            ? { type: "failure", reason: "invalid_request", status: null, retryAfterMs: null, requestId: null }
            : scenario,
        ),
      ["invalid_request is thrown before the first event"],
    ],
    [
      "says what is no event",
      changed("interrupted", (event) => [event, ...JSON.parse('[{ "type": "ping" }]')]),
      ["everything a stream says is an event"],
    ],
    [
      "shows the key",
      changed("tool_calls", (event, apiKey) => [
        event.type === "message_completed" ? { ...event, rawFinishReason: `Bearer ${apiKey}` } : event,
      ]),
      ["the key of a call is shown in no event and no error"],
    ],
  ])("an adapter that %s is found out", async (_, make, names) => {
    expect(await failing(adapterSuite(make))).toEqual(names);
  });

  test("an adapter that does not listen to the signal is found out, wherever it stalls", async () => {
    const deaf = replaced("stalled", async function* () {
      yield greeting;
      await never;
    });
    const suite = adapterSuite(deaf).filter(({ name }) => name.includes("stalled"));
    expect(await failing(suite)).toEqual(["aborting ends a stream that has stalled, at once and once"]);
  });
});

function painting(scenario: ImageAdapterScenario): ImageAdapterUnderTest {
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

/** A fake whose responses are changed on their way out. */
function repainted(change: (response: ImageResponse, apiKey: string) => ImageResponse) {
  return (scenario: ImageAdapterScenario): ImageAdapterUnderTest => {
    const adapter = painting(scenario);
    const { provider, operations, generate } = adapter;
    return {
      provider,
      operations,
      generate: async (request, call) => change(await generate(request, call), call.apiKey ?? ""),
    };
  };
}

/** A fake that says it can do other things than it can. */
function claiming(operations: ImageAdapterUnderTest["operations"]) {
  return (scenario: ImageAdapterScenario): ImageAdapterUnderTest => ({ ...painting(scenario), operations });
}

describe("[allm 101] adapters for images", () => {
  test.each(rows(imageAdapterSuite(painting)))("fakeImages: %s", (_, run) => run());
  test.each(rows(imageAdapterSuite(claiming(["edit"]))))("fakeImages that can only edit: %s", (_, run) => run());

  test.each<[string, (scenario: ImageAdapterScenario) => ImageAdapterUnderTest, readonly string[]]>([
    [
      "can do what there is no word for",
      claiming(["generate", ...JSON.parse('["upscale"]')]),
      ["what it can do is said in the words of the library, each once"],
    ],
    [
      "asks all the same",
      (scenario) => ({ ...claiming(["generate"])(scenario), calls: ["the first"] }),
      ["what it cannot do is refused before anything is asked"],
    ],
    [
      "forgets what the provider said",
      (scenario) =>
        painting(scenario.type === "failure" ? { ...scenario, retryAfterMs: null, requestId: null } : scenario),
      ["a failure says its reason, its status, how long to wait and the provider's id of the request"],
    ],
    [
      "answers with more than data",
      repainted((response) => Object.assign({ ...response }, { client: { open: true } })),
      ["a response is data and survives JSON, and the request is left as it was"],
    ],
    [
      "does not count",
      repainted((response) => ({ ...response, usage: { ...response.usage, images: 0 } })),
      ["usage counts at least one image"],
    ],
    [
      "gives more than was asked for",
      repainted((response) =>
        response.images.length === 1 ? response : { ...response, images: [...response.images, ...response.images] },
      ),
      ["four images asked for are one to four images"],
    ],
    [
      "shows the key",
      repainted((response, apiKey) => ({ ...response, model: `m ${apiKey}` })),
      ["the key of a call is shown in no response and no error"],
    ],
  ])("an adapter that %s is found out", async (_, make, names) => {
    expect(await failing(imageAdapterSuite(make))).toEqual(names);
  });
});

describe("[allm 101] executors of tools", () => {
  const identity: ToolExecutor = (_tool, _args, _context, run) => run();

  test.each(rows(executorSuite(identity)))("identity: %s", (_, run) => run());

  test.each<[string, ToolExecutor, readonly string[]]>([
    [
      "is async",
      async (_tool, _args, _context, run) => run(),
      [
        "a generator shows its progress and comes to its value",
        "an async generator shows its progress and comes to its value",
      ],
    ],
    [
      "swallows what is thrown",
      (_tool, _args, _context, run) => {
        try {
          return run();
        } catch {
          return null;
        }
      },
      ["what a handler throws comes out as it is"],
    ],
    [
      "turns arguments around",
      (_tool, args, _context, run) => {
        Object.assign(args, { city: "Rome" });
        return run();
      },
      ["arguments and context reach the handler as they were given"],
    ],
    [
      "runs twice",
      (_tool, _args, _context, run) => {
        const first = run();
        if (typeof first === "number") run();
        return first;
      },
      ["a call runs once, and before it has come out"],
    ],
    [
      "copies directives",
      (_tool, _args, _context, run) => {
        const out = run();
        return typeof out === "object" && out !== null && "question" in out ? { ...out } : out;
      },
      ["askUser comes out as it is"],
    ],
  ])("an executor that %s is found out", async (_, execute, names) => {
    expect(await failing(executorSuite(execute))).toEqual(names);
  });
});

describe("executors of code", () => {
  test.each(rows(codeExecutorSuite(() => quickjs())))("quickjs: %s", (_, run) => run());

  /** QuickJS with its results, or its cells, changed. */
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
      "loses what is printed",
      tampered((result) => (result.type === "finished" ? { ...result, observations: [] } : result)),
      ["what a cell prints is seen, in order", "a call that failed throws where it was made, and can be caught"],
    ],
    [
      "takes giving up for a value",
      tampered((result) =>
        result.type === "finished" && result.finish !== null
          ? { ...result, finish: { ...result.finish, type: "value" } }
          : result,
      ),
      ["a cell ends with what it gives up with"],
    ],
    [
      "tells calls one by one",
      tampered((result) => (result.type === "calls" ? { ...result, calls: result.calls.slice(0, 1) } : result)),
      ["calls made side by side come together, in their order"],
    ],
    [
      "has dice",
      tampered((result, { code }) => {
        if (result.type !== "finished" || !code.includes("random")) return result;
        runs += 1;
        return { ...result, finish: { type: "value", value: runs } };
      }),
      ["a cell finds neither a clock nor dice"],
    ],
    [
      "does not limit what is printed",
      tampered(asIs, (cell) => (cell.code.includes("more") ? { ...cell, code: 'console.log("more");' } : cell)),
      ["a cell that prints without end runs out of output"],
    ],
    [
      "calls everything a failure",
      tampered((result) => (result.type === "failed" ? { ...result, reason: "failed" } : result)),
      [
        "a call of another tool than the recorded one ends the cell as diverged",
        "a call with other arguments than the recorded one ends the cell as diverged",
        "a recorded call that is not made again ends the cell as diverged",
        "a cell that never ends runs out of instructions",
        "a cell that calls without end runs out of calls, those recorded among them",
        "a cell that prints without end runs out of output",
      ],
    ],
  ])("an executor that %s is found out", async (_, make, names) => {
    expect(await failing(codeExecutorSuite(make))).toEqual(names);
  });
});

describe("[allm 101] encoders of results", () => {
  test.each(rows(encoderSuite(encodeAsJson)))("encodeAsJson: %s", (_, run) => run());

  let shown = 0;

  test.each<[string, ToolResultEncoder, readonly string[]]>([
    [
      "quotes text",
      (result) => (result.type === "ok" ? JSON.stringify(result.value) : encodeAsJson(result)),
      ["text is shown as it is", "a value is shown without the box it came in"],
    ],
    [
      "rounds",
      (result) =>
        result.type === "ok" && typeof result.value === "number"
          ? String(Math.round(result.value))
          : encodeAsJson(result),
      ["fractions are shown as JSON and lose nothing"],
    ],
    [
      "hides why",
      (result) => (result.type === "ok" ? encodeAsJson(result) : '{"error":"something went wrong"}'),
      ["of a failure the model reads the message"],
    ],
    [
      "shows everything",
      (result) => (result.type === "ok" ? encodeAsJson(result) : JSON.stringify(result.failure)),
      ["what of a failure is meant for the program is not shown"],
    ],
    [
      "counts",
      (result) => {
        shown += 1;
        return result.type === "ok" ? encodeAsJson(result) : `${shown}: ${result.failure.message}`;
      },
      ["the same result is shown in the same way every time"],
    ],
  ])("an encoder that %s is found out", async (_, encode, names) => {
    expect(await failing(encoderSuite(encode))).toEqual(names);
  });
});

// Failures and error classes. One test for every reason of every class.

import type { EverturnError, Failure } from "everturn";

import { runInNewContext } from "node:vm";

import {
  AdapterError,
  EngineError,
  fromJson,
  ImageAdapterError,
  isEverturnError,
  MisuseError,
  orThrow,
  parse,
  RuntimeError,
  SessionError,
  StreamError,
  toJson,
  ToolError,
  ValidationError,
} from "everturn";
import { describe, expect, test } from "vitest";

import { errorFromFailure } from "./errors.ts";
import { toolFailureClasses } from "./failure-reasons.ts";
import {
  adapterErrorReasons,
  engineErrorReasons,
  imageAdapterErrorReasons,
  runtimeErrorReasons,
  sessionErrorReasons,
  streamErrorReasons,
  toolErrorReasons,
  toolFailureSources,
  validationErrorReasons,
} from "./failure.ts";
import { toCause } from "./failures.ts";

const rows: readonly { name: string; type: Failure["type"]; message: string; make: () => EverturnError }[] = [
  ...engineErrorReasons.map((reason) => ({
    name: `EngineError ${reason}`,
    type: "engine_error" as const,
    message: `engine error: ${reason}`,
    make: () => new EngineError(reason),
  })),
  ...adapterErrorReasons.map((reason) => ({
    name: `AdapterError ${reason}`,
    type: "adapter_error" as const,
    message: `adapter error: ${reason}`,
    make: () => new AdapterError(reason),
  })),
  ...streamErrorReasons.map((reason) => ({
    name: `StreamError ${reason}`,
    type: "stream_error" as const,
    message: `stream error: ${reason}`,
    make: () => new StreamError(reason),
  })),
  ...toolErrorReasons.map((reason) => ({
    name: `ToolError ${reason}`,
    type: "tool_error" as const,
    message: `tool error: ${reason}`,
    make: () => new ToolError(reason),
  })),
  ...sessionErrorReasons.map((reason) => ({
    name: `SessionError ${reason}`,
    type: "session_error" as const,
    message: `session error: ${reason}`,
    make: () => new SessionError(reason),
  })),
  ...validationErrorReasons.map((reason) => ({
    name: `ValidationError ${reason}`,
    type: "validation_error" as const,
    message: `validation failed: ${reason} (0 errors)`,
    make: () => new ValidationError(reason),
  })),
  ...runtimeErrorReasons.map((reason) => ({
    name: `RuntimeError ${reason}`,
    type: "runtime_error" as const,
    message: `runtime error: ${reason}`,
    make: () => new RuntimeError(reason),
  })),
  ...imageAdapterErrorReasons.map((reason) => ({
    name: `ImageAdapterError ${reason}`,
    type: "image_adapter_error" as const,
    message: `image adapter error: ${reason}`,
    make: () => new ImageAdapterError(reason),
  })),
];

describe("[allm 17] every reason of every error class", () => {
  test.each(rows)("$name", ({ name, type, message, make }) => {
    const error = make();
    expect(`${error.name} ${error.reason}`).toBe(name);
    expect(error.message).toBe(message);
    expect(error.failure.type).toBe(type);
    expect(isEverturnError(error)).toBe(true);
    expect(orThrow(parse("failure", error.failure))).toEqual(error.failure);
    const restored = errorFromFailure(orThrow(fromJson(toJson("failure", error.failure), { as: "failure" })));
    expect(restored).toBeInstanceOf(error.constructor);
    expect(restored.failure).toEqual(error.failure);
    expect(restored.message).toBe(error.message);
  });

  test("the closed lists contain every reason of the source system", () => {
    const upstream = {
      engine:
        "missing_adapter missing_stream_adapter missing_model missing_key unknown_tool invalid_engine unsupported_response_format no_image_adapter",
      adapter:
        "rate_limited authentication_failed invalid_request provider_unavailable context_length_exceeded content_filter timeout network_error malformed_response unsupported_feature no_scripted_response unknown",
      stream: "adapter_error cancelled timeout malformed_event unknown",
      tool: "handler_raised handler_exit timeout invalid_return not_found encoding_failed",
      session: "session_in_error_state invalid_status_for_operation no_pending_tool_call unknown_tool_call_id",
      validation:
        "invalid_request invalid_message invalid_tool invalid_thread invalid_session invalid_session_input unsupported_capability invalid_image_request",
      image:
        "authentication_failed rate_limited invalid_request content_filter context_length_exceeded provider_unavailable timeout network_error malformed_response unsupported_feature unsupported_operation unknown",
    };
    expect(engineErrorReasons).toEqual(expect.arrayContaining(upstream.engine.split(" ")));
    expect(adapterErrorReasons).toEqual(expect.arrayContaining(upstream.adapter.split(" ")));
    expect(streamErrorReasons).toEqual(expect.arrayContaining(upstream.stream.split(" ")));
    expect(toolErrorReasons).toEqual(expect.arrayContaining(upstream.tool.split(" ")));
    expect(sessionErrorReasons).toEqual(expect.arrayContaining(upstream.session.split(" ")));
    expect(validationErrorReasons).toEqual(expect.arrayContaining(upstream.validation.split(" ")));
    expect(imageAdapterErrorReasons).toEqual(expect.arrayContaining(upstream.image.split(" ")));
  });

  test("an unknown reason throws MisuseError and lists the valid ones", () => {
    const word = JSON.parse('"on_fire"');
    expect(() => new AdapterError(word)).toThrow(MisuseError);
    expect(() => new AdapterError(word)).toThrow(/"on_fire" is not a reason; use one of rate_limited, /);
    expect(() => new SessionError(word)).toThrow(/session_in_error_state/);
  });

  test("a provider failure has its details as fields and in its message", () => {
    const error = new AdapterError("rate_limited", { provider: "openai", status: 429, retryAfterMs: 1500 });
    expect(error.message).toBe("adapter error (openai): rate_limited");
    expect(error.failure).toMatchObject({ status: 429, retryAfterMs: 1500, retryable: true, kind: "quota" });
    expect(new AdapterError("authentication_failed").failure).toMatchObject({ retryable: false, kind: "auth" });
    expect(new ToolError("timeout", { toolName: "weather" }).message).toBe("tool error (weather): timeout");
  });
});

describe("a failure is always storable", () => {
  test("retry delays and statuses are integers or null", () => {
    const failure = new AdapterError("rate_limited", { retryAfterMs: 1500.5, status: Number.NaN }).failure;
    expect(failure).toMatchObject({ retryAfterMs: 1501, status: null });
    expect(() => toJson("failure", failure)).not.toThrow();
  });

  test("details that cannot be stored, such as credentials, are dropped", () => {
    const metadata = { apiKey: "sk-1", when: new Date(0), city: "Rome" };
    const failure = new EngineError("missing_key", { metadata: Object(metadata) }).failure;
    expect(failure.metadata).toEqual({ city: "Rome" });
  });

  test("[lash 20] a long response body is truncated in the middle with the number of omitted characters", () => {
    const raw = `${"a".repeat(3000)}${"b".repeat(3000)}`;
    const kept = new AdapterError("unknown", { raw: `  ${raw}\n` }).failure.raw;
    expect(kept).toBe(`${"a".repeat(2000)}\n\n... (2000 chars omitted) ...\n\n${"b".repeat(2000)}`);
    expect(new AdapterError("unknown", { raw: "a".repeat(4000) }).failure.raw).toHaveLength(4000);
  });

  test("a long chain of causes is truncated", () => {
    let cause: unknown = null;
    for (let level = 0; level < 300; level += 1) cause = { name: "Error", message: "m", cause };
    expect(() => toJson("failure", new EngineError("missing_key", { cause }).failure)).not.toThrow();
  });
});

describe("the cause of an error", () => {
  test("the error keeps the thrown object, the failure its storable part", () => {
    const root = new TypeError("no such host");
    const cause = new Error("connect failed", { cause: root });
    const error = new AdapterError("network_error", { cause });
    expect(error.cause).toBe(cause);
    expect(error.failure.cause).toEqual({
      name: "Error",
      message: "connect failed",
      cause: { name: "TypeError", message: "no such host", cause: null },
    });
  });

  test("toCause accepts any thrown value and never throws", () => {
    const hostile = {
      get message(): string {
        throw new Error("no");
      },
      toString(): string {
        throw new Error("no");
      },
    };
    const foreign: unknown = runInNewContext("new TypeError('boom')");
    expect(toCause(foreign)).toEqual({ name: "TypeError", message: "boom", cause: null });
    const circular = new Error("round");
    circular.cause = circular;
    expect(toCause(undefined)).toBeNull();
    expect(toCause("boom")).toEqual({ name: "string", message: "boom", cause: null });
    expect(toCause(42)).toEqual({ name: "number", message: "a number was thrown", cause: null });
    expect(toCause({ code: 7 })).toEqual({ name: "object", message: "an object was thrown", cause: null });
    expect(toCause(hostile)).toMatchObject({ name: "object", cause: null });
    expect(toCause(Object.assign(new Error("x"), { name: Symbol("name") }))).toMatchObject({ cause: null });
    expect(toCause(circular)?.message).toBe("round");
  });
});

describe("toolFailure", () => {
  test("[lash 56] classes, sources and retry dispositions are closed lists with defaults", () => {
    expect(toolFailureClasses).toEqual([
      "invalid_request",
      "unavailable",
      "permission_denied",
      "timeout",
      "execution",
      "external",
      "resource_limit",
      "internal",
    ]);
    expect(toolFailureSources).toEqual(["runtime", "tool", "plugin", "policy", "cancellation"]);
    const failure = new ToolError("handler_raised").failure;
    expect(failure).toMatchObject({
      class: "execution",
      code: "handler_raised",
      source: "runtime",
      retry: { type: "never" },
    });
    expect(new ToolError("not_found").failure.class).toBe("unavailable");
    expect(new ToolError("invalid_arguments").failure.class).toBe("invalid_request");
    expect(new ToolError("denied").failure.class).toBe("permission_denied");
    expect(new ToolError("timeout").failure.class).toBe("timeout");
    expect(new ToolError("outcome_unknown").failure.class).toBe("external");
    expect(new ToolError("encoding_failed").failure.class).toBe("internal");
    for (const retry of [{ type: "never" }, { type: "safe", afterMs: 100 }, { type: "exhausted", attempts: 3 }]) {
      expect(parse("failure", { ...failure, retry }).ok).toBe(true);
    }
    expect(parse("failure", { ...failure, class: "misc" }).ok).toBe(false);
  });
});

describe("failures stored by other releases", () => {
  const minimal = { type: "adapter_error", reason: "unknown", message: "rate limited" };

  test("[lash 21] an unknown or missing failure kind is read as unknown", () => {
    const later = parse("failure", { ...minimal, kind: "quantum" });
    const earlier = parse("failure", minimal);
    expect(later).toMatchObject({ ok: true, value: { kind: "unknown" } });
    expect(earlier).toMatchObject({ ok: true, value: { kind: "unknown", retryable: false } });
  });

  test("[lash 60] missing fields are read as their defaults", () => {
    expect(parse("failure", minimal)).toMatchObject({
      ok: true,
      value: {
        retryable: false,
        kind: "unknown",
        code: null,
        raw: null,
        retryAfterMs: null,
        status: null,
        requestId: null,
        provider: null,
        cause: null,
        metadata: {},
      },
    });
  });
});

test("isEverturnError recognises errors of another copy of the package, and nothing else", () => {
  const foreign = Object.assign(new Error("x"), { [Symbol.for("everturn.error")]: true });
  expect(isEverturnError(foreign)).toBe(true);
  expect(isEverturnError(new Error("x"))).toBe(false);
  expect(isEverturnError(new MisuseError("invalid_argument", "x"))).toBe(false);
  expect(isEverturnError(null)).toBe(false);
});

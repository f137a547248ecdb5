// Errors as HTTP responses: their status, and the redaction of what only the operator may see.

import { describe, expect, test } from "vitest";

import {
  AdapterError,
  EngineError,
  MisuseError,
  RuntimeError,
  SessionError,
  StreamError,
  ToolError,
  ValidationError,
} from "../../core/model/internal.ts";
import { errorResponse, HttpError, redactedJson } from "./failure.ts";

const secret = "/var/lib/secret.db";
const message = `it is at ${secret}`;
const threw = "a function of the program threw while";
const refresh = "Failed to refresh execution environment";

describe("error responses", () => {
  const cases: readonly (readonly [status: number, words: "disclosed" | "redacted", error: Error])[] = [
    [400, "disclosed", new ValidationError("invalid_data", { message })],
    [400, "disclosed", new MisuseError("invalid_argument", message)],
    [409, "disclosed", new MisuseError("invalid_status", message)],
    [404, "disclosed", new SessionError("unknown_tool_call_id", { message })],
    [409, "disclosed", new SessionError("no_pending_tool_call", { message })],
    [409, "disclosed", new ToolError("denied", { message })],
    [400, "disclosed", new EngineError("unknown_tool", { message })],
    [503, "redacted", new EngineError("missing_key", { message })],
    [502, "disclosed", new AdapterError("context_length_exceeded", { message })],
    [502, "redacted", new AdapterError("authentication_failed", { message })],
    [502, "redacted", new StreamError("interrupted", { message })],
    [404, "disclosed", new RuntimeError("not_found", { message })],
    [409, "disclosed", new RuntimeError("conflict", { message })],
    [409, "disclosed", new RuntimeError("lease_lost", { message })],
    [503, "redacted", new RuntimeError("storage_busy", { message })],
    [503, "redacted", new RuntimeError("storage_failed", { message })],
    [507, "redacted", new RuntimeError("storage_full", { message })],
    [500, "disclosed", new RuntimeError("corrupt_row", { message })],
    [409, "disclosed", new RuntimeError("callback_failed", { message: `pay: ${message}` })],
    [
      409,
      "redacted",
      new RuntimeError("callback_failed", { message: `${threw} call_model was performed: ${message}` }),
    ],
    [409, "redacted", new RuntimeError("reconfigure_failed", { message: `${refresh}: ${message}` })],
    [413, "disclosed", new HttpError("body_too_large", message)],
    [500, "redacted", new TypeError(message)],
  ];

  test.each(cases)("have status %d, and the message is %s", async (status, words, error) => {
    const answer = errorResponse(error);
    expect(answer.status).toBe(status);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect((await answer.text()).includes(secret)).toBe(words === "disclosed");
  });

  test("carry Retry-After for transient failures", () => {
    const after = (error: Error) => errorResponse(error).headers.get("retry-after");
    expect(after(new HttpError("shutting_down", "soon"))).toBe("1");
    expect(after(new RuntimeError("storage_busy"))).toBe("1");
    expect(after(new RuntimeError("storage_failed"))).toBe("1");
    expect(after(new RuntimeError("storage_full"))).toBeNull();
    expect(after(new RuntimeError("conflict"))).toBeNull();
  });
});

test("a failure inside of a response body loses its cause, its raw data and a message that only the operator may see", () => {
  const { failure } = new AdapterError("network_error", { message, cause: new Error(secret) });
  const raw = JSON.stringify({ failure });
  expect(raw.split(secret)).toHaveLength(3);
  const text = redactedJson({ turns: [{ failure: { ...failure, raw: { at: secret } } }] });
  expect(text).toContain("network_error");
  expect(text).not.toContain(secret);
});

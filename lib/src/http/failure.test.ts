// What went wrong, as an answer: the status that says what it means for whoever asked, and no word that is only the operator's.

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
} from "../model/internal.ts";
import { failed, HttpError, told } from "./failure.ts";

const secret = "/var/lib/secret.db";
const message = `it is at ${secret}`;

describe("an answer", () => {
  const cases: readonly (readonly [status: number, words: "said" | "kept", error: Error])[] = [
    [400, "said", new ValidationError("invalid_data", { message })],
    [400, "said", new MisuseError("invalid_argument", message)],
    [409, "said", new MisuseError("invalid_status", message)],
    [404, "said", new SessionError("unknown_tool_call_id", { message })],
    [409, "said", new SessionError("no_pending_tool_call", { message })],
    [409, "said", new ToolError("denied", { message })],
    [400, "said", new EngineError("unknown_tool", { message })],
    [503, "kept", new EngineError("missing_key", { message })],
    [502, "said", new AdapterError("context_length_exceeded", { message })],
    [502, "kept", new AdapterError("authentication_failed", { message })],
    [502, "kept", new StreamError("interrupted", { message })],
    [404, "said", new RuntimeError("not_found", { message })],
    [409, "said", new RuntimeError("conflict", { message })],
    [409, "said", new RuntimeError("lease_lost", { message })],
    [503, "kept", new RuntimeError("storage_busy", { message })],
    [503, "kept", new RuntimeError("storage_failed", { message })],
    [507, "kept", new RuntimeError("storage_full", { message })],
    [500, "said", new RuntimeError("corrupt_row", { message })],
    [413, "said", new HttpError("body_too_large", message)],
    [500, "kept", new TypeError(message)],
  ];

  test.each(cases)("has the status %d, and its words are %s", async (status, words, error) => {
    const answer = failed(error);
    expect(answer.status).toBe(status);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect((await answer.text()).includes(secret)).toBe(words === "said");
  });

  test("says when to ask again, where that helps", () => {
    const after = (error: Error) => failed(error).headers.get("retry-after");
    expect(after(new HttpError("shutting_down", "soon"))).toBe("1");
    expect(after(new RuntimeError("storage_busy"))).toBe("1");
    expect(after(new RuntimeError("storage_failed"))).toBe("1");
    expect(after(new RuntimeError("storage_full"))).toBeNull();
    expect(after(new RuntimeError("conflict"))).toBeNull();
  });
});

test("a failure inside of what is told loses its cause, what came with it, and words that are the operator's", () => {
  const { failure } = new AdapterError("network_error", { message, cause: new Error(secret) });
  const raw = JSON.stringify({ failure });
  expect(raw.split(secret)).toHaveLength(3);
  const text = told({ turns: [{ failure: { ...failure, raw: { at: secret } } }] });
  expect(text).toContain("network_error");
  expect(text).not.toContain(secret);
});

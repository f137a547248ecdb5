import { loadSettings } from "@everturn/server";
import { adapterFailure } from "everturn/advanced";
import { describe, expect, it } from "vitest";

import { redactor, requestLine, turnFailureLine } from "./server-log.ts";

const entry = {
  method: "POST",
  path: "/sessions",
  status: 201,
  isComplete: true,
  durationMs: 12.4,
  caller: { tenant: "acme" },
  address: "127.0.0.1",
};

describe("a line of the request log", () => {
  it.each([
    [entry, "POST /sessions 201 12 ms caller=acme from 127.0.0.1"],
    [{ ...entry, caller: { tenant: "acme", name: "ann" } }, "POST /sessions 201 12 ms caller=acme/ann from 127.0.0.1"],
    [{ ...entry, caller: {} }, "POST /sessions 201 12 ms caller=anonymous from 127.0.0.1"],
    [{ ...entry, caller: null, status: 401 }, "POST /sessions 401 12 ms caller=- from 127.0.0.1"],
    [{ ...entry, isComplete: false }, "POST /sessions 201 (aborted) 12 ms caller=acme from 127.0.0.1"],
    [{ ...entry, isComplete: false, status: null }, "POST /sessions no response 12 ms caller=acme from 127.0.0.1"],
  ])("%#", (logged, line) => {
    expect(requestLine(logged)).toBe(line);
  });
});

describe("the line of a failed turn", () => {
  const report = { tenant: "", sessionId: "s1", turnId: "turn-1", status: "failed", error: null } as const;

  it("has turn, session, reason, message, provider and all causes, in one line", () => {
    const cause = new Error("fetch failed", { cause: new Error("connect\nECONNREFUSED") });
    const failure = adapterFailure("network_error", { message: "no connection", provider: "openai", cause });
    expect(turnFailureLine({ ...report, failure })).toBe(
      "turn turn-1 of session s1 failed: network_error: no connection (openai); caused by Error: fetch failed; caused by Error: connect ECONNREFUSED",
    );
    expect(turnFailureLine({ ...report, tenant: "acme", status: "parked", failure })).toMatch(
      /^turn turn-1 of session s1 of tenant acme parked: network_error/,
    );
  });

  it("has the error of a turn that was left", () => {
    const error = new Error("disk full");
    expect(turnFailureLine({ ...report, status: "left", failure: null, error })).toBe(
      "turn turn-1 of session s1 was left by this process and is tried again: Error: disk full",
    );
  });

  it("is cut at 2,000 characters", () => {
    const failure = adapterFailure("unknown", { message: "x".repeat(10_000) });
    expect(turnFailureLine({ ...report, failure })).toHaveLength(2001);
  });
});

it("removes API keys and tokens of the process from a line", async () => {
  const environment = {
    HOME: "/",
    OPENAI_API_KEY: "sk-0123456789",
    EVERTURN_TOKEN: "acme:0123456789abcdef",
    GROQ_API_KEY: "none",
  };
  const redact = redactor(await loadSettings({ environment, folder: "/" }), environment);
  expect(redact("none: sk-0123456789 and 0123456789abcdef")).toBe("none: [redacted] and [redacted]");
});

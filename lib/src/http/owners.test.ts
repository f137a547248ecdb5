// Who may do what over HTTP (law A2): a session belongs to the caller that started it, and the caller that started a turn does not decide in it.

import type { Auth, HttpOptions } from "everturn/http";
import type { JsonObject } from "everturn/model";

import { engine, fake, tool } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

const ada = "the-token-of-ada-000";
const bob = "the-token-of-bob-000";
const ops = "the-token-of-ops-000";
const auth: Auth = [
  { token: ada, name: "ada" },
  { token: bob, name: "bob" },
  { token: ops, name: "ops", operator: true },
];

/** A shop whose model asks to refund 50, twice in each turn. */
function shop(options: Partial<HttpOptions> = {}) {
  const refunds: unknown[] = [];
  const refund = tool({
    name: "refund",
    description: "Refunds an order.",
    schema: { type: "object", properties: { amount: { type: "number" } } },
    needsApproval: true,
    handler: ({ amount }: { readonly amount?: number }) => {
      refunds.push(amount);
      return "refunded";
    },
  });
  const call = { type: "tool_call", name: "refund", arguments: { amount: 50 } } as const;
  const scripts = Array.from({ length: 9 }, (_, index) => [
    [{ ...call, id: `a${index}` }],
    [{ ...call, id: `b${index}` }],
    [{ type: "text", text: "Refunded." } as const],
  ]).flat();
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [refund] });
  const host = memoryStorage();
  const sessions = runtime({ host, engines: { default: agent } });
  const handlerWith = (more: Partial<HttpOptions>) =>
    createHandler({ sessions, auth, inspect: true, ...options, ...more });
  const ask = async (token: string, method: string, path: string, body?: unknown, headers: object = {}) => {
    const response = await handlerWith({})(
      new Request(`http://localhost${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          prefer: "wait=10",
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    const text = await response.text();
    const json: JsonObject = text.startsWith("{") ? JSON.parse(text) : {};
    return { status: response.status, text, json };
  };
  return { sessions, ask, refunds };
}

const approve = (toolCallId: string, more: object = {}) => ({ toolCallId, type: "approve", ...more });

describe("the attack", () => {
  test("a customer does not approve the refund that they asked for, raised to 10,000, and another customer does not read it", async () => {
    const { ask, sessions, refunds } = shop();
    expect((await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" })).status).toBe(200);
    const before = await sessions.get("s");
    const raised = approve("a0", { arguments: { amount: 10_000 } });
    const refused = await ask(ada, "POST", "/sessions/s/decisions", raised);
    expect(refused.status).toBe(403);
    expect(refused.text).toContain("`decide`");
    expect(await sessions.get("s")).toEqual(before);
    expect((await ask(bob, "GET", "/sessions/s")).status).toBe(404);
    expect((await ask(bob, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(404);
    expect((await ask(ops, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(200);
    expect(refunds).toEqual([50]);
  });
});

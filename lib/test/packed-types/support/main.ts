// Serves the support agent over HTTP from a SQLite file, restarts the server while an approval is pending, and plays
// the customer and the shop.

import type { Engine } from "everturn";
import type { ClientTurn } from "everturn/client";

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { serve } from "@hono/node-server";
import { createClient } from "everturn/client";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

import { payments, Summary, supportAgent } from "./agent.js";

const folder = mkdtempSync(join(tmpdir(), "support-"));
const token = "a-long-random-token";

/** One server process: a runtime over the file, and a client of its HTTP API. */
async function open(agent: Engine) {
  const host = sqliteStorage({ path: join(folder, "sessions.db") });
  const sessions = runtime({ host, engines: { default: agent }, durability: "durable" });
  const shutdown = new AbortController();
  const auth = [{ token, tenant: "shop", name: "ada", operator: true }];
  const handler = createHandler({ sessions, auth, shutdown: shutdown.signal, allow: ["output"] });
  const server = serve({ fetch: handler, port: 0 });
  await once(server, "listening");
  const address = server.address();
  const url = `http://localhost:${typeof address === "object" ? address?.port : ""}`;
  const close = async () => {
    shutdown.abort();
    server.close();
    await sessions.close();
    await host.close();
  };
  return { sessions: sessions.tenant("shop"), client: createClient({ url, token }), close };
}

/** Prints what the turn does, and returns its result. */
async function show(turn: ClientTurn) {
  let text = "";
  for await (const { event } of turn.events) {
    switch (event.type) {
      case "text_delta":
        text += event.delta;
        break;
      case "step_reset":
        text = "";
        break;
      // Not `tool_execution_started`, which is not stored: a reader that connects after the tool has ended does not get
      // it.
      case "tool_execution_completed":
        console.log(`[${event.name}: ${event.result.type}]`);
        break;
      case "ask_user_requested":
        console.log(`question: ${event.question}`);
        break;
      case "approval_requested":
        console.log(`approval: ${event.toolName} ${JSON.stringify(event.arguments)}`);
        break;
    }
  }
  if (text !== "") console.log(`agent: ${text}`);
  return turn.result;
}

// The first process: the customer complains, answers a question, and the agent wants to pay.
const first = await open(
  supportAgent([
    [{ type: "tool_call", name: "find_order", arguments: { order: "1042" } }],
    [{ type: "tool_call", name: "ask_customer", arguments: { question: "Refund or replacement?" } }],
    [{ type: "tool_call", id: "pay", name: "refund", arguments: { order: "1042", euros: 189 } }],
  ]),
);
const asked = await show(await first.client.start("My grinder (order 1042) arrived broken.", { id: "case-1" }));
console.log(`${asked.session.status}: ${asked.session.pendingQuestion}`);
const waiting = await show(await first.client.reply("case-1", "A refund, please."));
console.log(`${waiting.session.status}: ${waiting.haltedReason}`);
await first.close();

// The second process: the shop approves less than the agent asked for, and closes the case.
const second = await open(
  supportAgent([
    [
      { type: "text", text: "I have refunded " },
      { type: "text", text: "150 EUR." },
    ],
    [{ type: "text", text: '{"order":"1042","refunded":150,"mood":"calm","closed":"2026-11-16"}' }],
    [{ type: "text", text: '{"order":"1042"}' }],
  ]),
);
const stored = await second.client.get("case-1");
const [call] = stored?.session.pendingToolCalls ?? [];
if (call === undefined) throw new Error("no call is pending");
const { digest } = call;
const decision = { type: "approve", digest, arguments: { ...call.arguments, euros: 150 } } as const;
const paid = await show(await second.client.decide("case-1", call.id, decision));
console.log(`${paid.session.status}, paid ${[...payments.values()].join(", ")}`);

const summary = await second.sessions.reply("case-1", "Close the case.", { output: Summary });
const { output } = await summary.result;
if (output === null) throw new Error("there is no summary");
const mood: "calm" | "angry" = output.mood;
console.log(`${output.order}: ${output.refunded} EUR, ${mood}, ${output.closed.getUTCFullYear()}`);

// Over HTTP the schema is JSON Schema, and the value is JSON.
const schema = { type: "object", properties: { order: { type: "string" } }, required: ["order"] };
const again = await second.client.send("case-1", "Only the order.", { output: schema });
console.log((await again.result).output);

const { total } = await second.client.usage("case-1");
const { items } = await second.client.list();
console.log(`${items.map(({ id, status }) => `${id}: ${status}`).join()}, ${total.totalTokens} tokens`);
await second.close();
rmSync(folder, { recursive: true });

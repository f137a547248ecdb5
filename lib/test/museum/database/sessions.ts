// How the stored sessions are created: each is left in another state in which a process can be killed or a session can
// wait.

import type { EngineName } from "./engines.ts";
import type { Museum } from "./museum.ts";
import type { StorageBatch as Batch } from "everturn/advanced";
import type { StartOptions } from "everturn/runtime";
import type { Put, TableName } from "../../../src/durable/internal.ts";

import { assistant, imagePart, textPart, user } from "everturn";

/** Starts the session that is named after its engine. */
const started = (name: EngineName, more: StartOptions = {}): StartOptions => ({
  id: name,
  engine: name,
  key: "start",
  ...more,
});

const puts = (batch: Batch, table: TableName, test: (put: Put) => boolean = () => true): boolean =>
  batch.puts.some((put) => put.table === table && test(put));

const journalRow = (ordinal: number) => (batch: Batch) => puts(batch, "journal", ({ key }) => key.at(-1) === ordinal);

/** The next attempt waits on the clock, which does not advance. */
const startsDelay = (batch: Batch) => puts(batch, "records", ({ key }) => String(key[4]).startsWith("delay/"));

const alarm = {
  id: "alarm",
  eventType: "alarm",
  origin: { type: "plugin", pluginId: "clock", transient: false },
  text: "It rang.",
} as const;

/** The script of each session, by its id. */
export const leave: { readonly [N in EngineName]: (museum: Museum) => Promise<void> } = {
  // Turns that were accepted, and turns of processes that were killed.

  accepted: async (museum) => {
    const { sessions } = museum.process({ drive: false });
    await sessions.start("Begin.", started("accepted", { context: { user: "ada" }, metadata: { from: "museum" } }));
  },
  cut_in_reply: async (museum) => {
    const process = museum.process({ holds: ["fake reply 1"], live: { bytes: 1, everyMs: 1000 } });
    await process.sessions.start("Begin.", started("cut_in_reply"));
    await museum.cutAt(process, "fake reply 1");
  },
  cut_after_reply: async (museum) => {
    const process = museum.process({ cutAfter: journalRow(1) });
    await museum.untilCut(process, process.sessions.start("Begin.", started("cut_after_reply")));
  },
  cut_in_parallel_tools: async (museum) => {
    const process = museum.process({ holds: ["look", "pay", "send"] });
    await process.sessions.start("Begin.", started("cut_in_parallel_tools"));
    await museum.cutAt(process, "look", "pay", "send");
  },
  cut_after_hook: async (museum) => {
    const process = museum.process({ cutAfter: (batch) => puts(batch, "records", ({ key }) => key[4] === "prepared") });
    await museum.untilCut(process, process.sessions.start("Begin.", started("cut_after_hook")));
  },
  cut_in_retry: async (museum) => {
    const process = museum.process({ cutAfter: startsDelay });
    await museum.untilCut(process, process.sessions.start("Begin.", started("cut_in_retry")));
  },
  cut_in_tool_retry: async (museum) => {
    const process = museum.process({ cutAfter: startsDelay });
    await museum.untilCut(process, process.sessions.start("Begin.", started("cut_in_tool_retry")));
  },
  cut_after_fallback: async (museum) => {
    const process = museum.process({ holds: ["look"] });
    await process.sessions.start("Begin.", started("cut_after_fallback"));
    await museum.cutAt(process, "look");
  },
  cut_before_finalize: async (museum) => {
    const process = museum.process({ cutAfter: journalRow(4) });
    await museum.untilCut(process, process.sessions.start("Begin.", started("cut_before_finalize")));
  },
  cut_in_prepared_step: async (museum) => {
    const process = museum.process({ holds: ["pay"] });
    await process.sessions.start("Begin.", started("cut_in_prepared_step"));
    await museum.cutAt(process, "pay");
  },
  handed_over: async (museum) => {
    const process = museum.process({ holds: ["fake reply 1"] });
    await process.sessions.start("Begin.", started("handed_over"));
    await museum.reached(process, "fake reply 1");
    const closed = process.sessions.close({ graceMs: 1000 });
    await museum.clock.advance(1000);
    await closed;
  },

  // Sessions that wait.

  awaiting_approval: async (museum) => {
    const { sessions } = museum.process();
    await (
      await sessions.start("Begin.", started("awaiting_approval"))
    ).result;
    await sessions.decide("awaiting_approval", "c0-0", { type: "approve", by: "ada" }, { key: "charge" });
    await sessions.decide("awaiting_approval", "c0-1", { type: "deny", reason: "No.", by: "ada" }, { key: "wipe" });
  },
  approved: async (museum) => {
    await (
      await museum.process().sessions.start("Begin.", started("approved"))
    ).result;
    const { sessions } = museum.process({ drive: false });
    await sessions.decide("approved", "c0-0", { type: "approve", arguments: { amount: 5 } }, { key: "charge" });
  },
  awaiting_answer: async (museum) => {
    await (
      await museum.process().sessions.start("Begin.", started("awaiting_answer"))
    ).result;
  },
  awaiting_result_answer: async (museum) => {
    await (
      await museum.process().sessions.start("Begin.", started("awaiting_result_answer"))
    ).result;
  },
  awaiting_results: async (museum) => {
    const { sessions } = museum.process();
    await (
      await sessions.start("Begin.", started("awaiting_results"))
    ).result;
    await sessions.submitToolResults("awaiting_results", [["c0-0", { lifted: true }]], { key: "lift" });
  },
  awaiting_token: async (museum) => {
    const { sessions } = museum.process();
    await (
      await sessions.start("Begin.", started("awaiting_token"))
    ).result;
    museum.tokens["awaiting_token"] = await sessions.token("awaiting_token", "c0-0");
  },
  used_token: async (museum) => {
    const { sessions } = museum.process();
    await (
      await sessions.start("Begin.", started("used_token"))
    ).result;
    const token = await sessions.token("used_token", "c0-0");
    const completion = await sessions.complete(token, { type: "result", value: "up" });
    if (completion.type === "completed") await completion.turn.result;
    museum.tokens["used_token"] = token;
  },
  awaiting_deadline: async (museum) => {
    const waits = { manual: { afterMs: 600_000 } };
    await (
      await museum.process().sessions.start("Begin.", started("awaiting_deadline", { waits }))
    ).result;
  },
  awaiting_failing_deadline: async (museum) => {
    const waits = { manual: { afterMs: 600_000, onTimeout: "fail_turn" } } as const;
    await (
      await museum.process().sessions.start("Begin.", started("awaiting_failing_deadline", { waits }))
    ).result;
  },

  // Nested turns.

  cut_in_child: async (museum) => {
    const process = museum.process({ cutAfter: (batch) => puts(batch, "journal", isSecondRowOfChild) });
    await museum.untilCut(process, process.sessions.start("Begin.", started("cut_in_child")));
  },
  cut_in_unsafe_child: async (museum) => {
    const process = museum.process({ cutAfter: (batch) => puts(batch, "journal", isSecondRowOfChild) });
    await museum.untilCut(process, process.sessions.start("Begin.", started("cut_in_unsafe_child")));
  },
  waiting_child: async (museum) => {
    await (
      await museum.process().sessions.start("Begin.", started("waiting_child"))
    ).result;
  },

  // Input and cancels.

  steered: async (museum) => {
    const process = museum.process({ holds: ["look"] });
    await process.sessions.start("Begin.", started("steered"));
    await museum.reached(process, "look");
    await process.sessions.steer("steered", "And hurry.", { id: "hurry" });
    await process.sessions.steer("steered", { type: "transient", message: user("It is noon.") }, { id: "note" });
    await process.sessions.steer("steered", { type: "cause", cause: alarm }, { id: "alarm" });
    await process.sessions.steer("steered", "Never mind.", { id: "withdrawn" });
    await process.sessions.withdraw("steered", "withdrawn");
    process.cut();
  },
  cut_after_claim: async (museum) => {
    const first = museum.process({ holds: ["look"] });
    await first.sessions.start("Begin.", started("cut_after_claim"));
    await museum.reached(first, "look");
    await first.sessions.steer("cut_after_claim", "Take this once.", { id: "once" });
    first.cut();
    await museum.leaseExpires();
    const second = museum.process({ cutAfter: (batch) => puts(batch, "inbox", isClaim) });
    await museum.untilCut(second, second.sessions.recover("cut_after_claim"));
  },
  next_turn: async (museum) => {
    const first = museum.process();
    await (
      await first.sessions.start("Begin.", started("next_turn"))
    ).result;
    const second = museum.process({ holds: ["look"] });
    await second.sessions.step("next_turn", { engine: "next_turn", key: "step" });
    await museum.reached(second, "look");
    await second.sessions.steer("next_turn", "One more thing.", { id: "more" });
    second.cut();
    await museum.leaseExpires();
    const third = museum.process({ cutAfter: (batch) => puts(batch, "starts") });
    await museum.untilCut(third, third.sessions.recover("next_turn"));
  },
  unsettled_cancel: async (museum) => {
    const process = museum.process({ holds: ["look"] });
    await process.sessions.start("Begin.", started("unsettled_cancel"));
    await museum.cutAt(process, "look");
    const other = museum.process({ drive: false, cutAfter: (batch) => puts(batch, "cancels") });
    await museum.untilCut(other, other.sessions.cancel("unsettled_cancel", { reason: "enough", origin: "ada" }));
  },

  // Ended turns, with and without an error.

  parked_to_restart: (museum) => museum.park("parked_to_restart"),
  parked_to_close: (museum) => museum.park("parked_to_close"),
  cut_after_restart: async (museum) => {
    await museum.park("cut_after_restart");
    const process = museum.process({ holds: ["look"] });
    await process.sessions.recover("cut_after_restart", { from: "step" });
    await museum.cutAt(process, "look");
  },
  cancelled: async (museum) => {
    const process = museum.process({ holds: ["look"] });
    await process.sessions.start("Begin.", started("cancelled"));
    await museum.reached(process, "look");
    const cancelled = process.sessions.cancel("cancelled", { reason: "enough", origin: "ada" });
    // Running tools may answer within a grace.
    for (let seconds = 0; seconds < 10; seconds += 1) await museum.clock.advance(1000);
    await cancelled;
  },
  halted_by_budget: async (museum) => {
    await (
      await museum.process().sessions.start("Begin.", started("halted_by_budget"))
    ).result;
  },
  failed: async (museum) => {
    await (
      await museum.process().sessions.start("Begin.", started("failed"))
    ).result;
  },
  completed: async (museum) => {
    const { sessions } = museum.process();
    const picture = imagePart({ source: { type: "base64", data: "iVBORw0KGgo=" }, mimeType: "image/png" });
    const history = [user([textPart("Look at this."), picture]), assistant("A picture."), user("Pay for it.")];
    await (
      await sessions.start(history, started("completed", { metadata: { topic: "payment" } }))
    ).result;
    // A key with the characters that SQLite cannot store as they are.
    await (
      await sessions.reply("completed", "And again?", { engine: "completed", key: strangeKey })
    ).result;
  },
  forked: async (museum) => {
    const { sessions } = museum.process();
    await (
      await sessions.start("Begin.", { id: "forked_from", engine: "forked", key: "start" })
    ).result;
    await sessions.fork("forked_from", { id: "forked" });
  },
  single_steps: async (museum) => {
    const { sessions } = museum.process();
    await (
      await sessions.start("Begin.", started("single_steps"))
    ).result;
    await (
      await sessions.step("single_steps", { engine: "single_steps", key: "first" })
    ).result;
  },
  of_a_tenant: async (museum) => {
    const sessions = museum.process().sessions.tenant("acme");
    await (
      await sessions.start("Begin.", started("of_a_tenant"))
    ).result;
  },
  retained: async (museum) => {
    const { sessions } = museum.process({ retentionMs: 600_000 });
    await (
      await sessions.start("Begin.", started("retained"))
    ).result;
  },
  deleted: async (museum) => {
    const { sessions } = museum.process();
    await (
      await sessions.start("Begin.", started("deleted"))
    ).result;
    await sessions.delete("deleted");
  },

  // Code cells.

  waiting_cell: async (museum) => {
    await (
      await museum.process().sessions.start("Begin.", started("waiting_cell"))
    ).result;
  },
  cut_in_cell: async (museum) => {
    const process = museum.process({ holds: ["send"] });
    await process.sessions.start("Begin.", started("cut_in_cell"));
    await museum.cutAt(process, "send");
  },
};

/** U+0000, U+0001, U+D7FF and half of a surrogate pair. */
export const strangeKey = "again \u0000 \u0001 \ud7ff \ud800";

function isClaim({ value }: Put): boolean {
  return value.includes('"state":"claimed"');
}

function isSecondRowOfChild({ key }: Put): boolean {
  return String(key[2]).includes("/child/") && key.at(-1) === 2;
}

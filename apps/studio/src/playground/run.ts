// One run of a column: its turn, what it has said so far, and how long it took. A reducer over the events of the turn,
// so that it can be tested without a page.

import type { ClientTurn } from "everturn/client";

type RuntimeEvent = ClientTurn["events"] extends AsyncIterable<infer Event> ? Event : never;
type TurnEnd = Awaited<ClientTurn["result"]>;

/** A call of a tool in a run. */
type RunCall = {
  readonly id: string;
  readonly name: string;
  readonly state: "runs" | "ok" | "failed" | "waits";
  readonly durationMs: number | null;
};

/** The state of a run. Times are in milliseconds, measured by the page. */
export type Run = {
  readonly sessionId: string | null;
  readonly startedAt: number;
  /** When the first text arrived. */
  readonly firstAt: number | null;
  readonly endedAt: number | null;
  readonly text: string;
  readonly calls: readonly RunCall[];
  readonly end: Pick<TurnEnd, "haltedReason" | "usage" | "steps"> | null;
  readonly failure: string | null;
};

/** A run that begins. */
export function beginRun(startedAt: number): Run {
  return {
    sessionId: null,
    startedAt,
    firstAt: null,
    endedAt: null,
    text: "",
    calls: [],
    end: null,
    failure: null,
  };
}

/** The run after one more event. */
export function withEvent(run: Run, { event }: Pick<RuntimeEvent, "event">, now: number): Run {
  switch (event.type) {
    case "text_delta":
      return { ...run, text: run.text + event.delta, firstAt: run.firstAt ?? now };
    case "message_started":
      return run.text === "" ? run : { ...run, text: `${run.text.trimEnd()}\n\n` };
    case "step_reset":
      // The text of the discarded attempt is replaced by that of the next one.
      return { ...run, text: "" };
    case "tool_execution_started":
      return withCall(run, { id: event.id, name: event.name, state: "runs", durationMs: null });
    case "tool_execution_completed":
      return withCall(run, {
        id: event.id,
        name: event.name,
        state: event.result.type === "success" ? "ok" : "failed",
        durationMs: event.durationMs,
      });
    case "approval_requested":
    case "ask_user_requested":
      return withCall(run, { id: event.toolCallId, name: event.toolName, state: "waits", durationMs: null });
    default:
      return run;
  }
}

/** The run after its turn has ended. */
export function withEnd(run: Run, { haltedReason, usage, steps, failure }: TurnEnd, now: number): Run {
  return { ...run, end: { haltedReason, usage, steps }, failure: failure?.message ?? null, endedAt: now };
}

function withCall(run: Run, call: RunCall): Run {
  const index = run.calls.findIndex(({ id }) => id === call.id);
  return { ...run, calls: index === -1 ? [...run.calls, call] : run.calls.with(index, call) };
}

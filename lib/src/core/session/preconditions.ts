// Which verb a session allows in which status. Calling a verb that the status does not allow is a programming error and
// throws `MisuseError`. A session in the status `error` throws `SessionError` for every verb until `recover` is called.
//
//                     start  reply  continue(message)    continue(null)           step  submit, decide
//   idle, completed   yes    yes    yes                  yes                      yes   no
//   awaiting_user     no     yes    only a user message  no                       no    only with undecided calls
//   awaiting_tools    no     no     no                   without undecided calls  no    yes
//   error             SessionError for all

import type { Message, PendingToolCall, Session } from "../model/internal.ts";

import { MisuseError, SessionError, sessionError } from "../model/internal.ts";

/** A verb whose precondition is checked. `submitToolResult` covers both verbs that submit results. */
export type Verb = "start" | "reply" | "continue" | "step" | "submitToolResult" | "decide";

/** Returns whether a pending call has no decision yet. */
export function isOpen({ decision }: PendingToolCall): boolean {
  return decision === null;
}

/** Throws if the status of the session does not allow the verb. `message` is the message that `continue` would add. */
export function checkStatus(session: Session, verb: Verb, message: Message | null): void {
  if (session.status === "error") {
    throw new SessionError("session_in_error_state", {
      message: "the session is in the status error; recover(session) makes it usable again",
      metadata: { status: session.status, reason: sessionError(session)?.reason ?? null },
    });
  }
  if (allows(session, verb, message)) return;
  const openCount = session.pendingToolCalls.filter(isOpen).length;
  const waiting = openCount === 0 ? "" : `, with ${openCount} calls that wait for an answer`;
  throw new MisuseError(
    "invalid_status",
    `${verb}: the session is ${session.status}${waiting}; ${advice(session, verb)}`,
    {
      path: ["status"],
    },
  );
}

function allows({ status, pendingToolCalls }: Session, verb: Verb, message: Message | null): boolean {
  const hasOpenCalls = pendingToolCalls.filter(isOpen).length > 0;
  switch (status) {
    case "idle":
    case "completed":
      return verb !== "submitToolResult" && verb !== "decide";
    case "awaiting_user":
      if (verb === "submitToolResult" || verb === "decide") return hasOpenCalls;
      return verb === "reply" || (verb === "continue" && message?.role === "user");
    case "awaiting_tools":
      if (verb === "submitToolResult" || verb === "decide") return true;
      return verb === "continue" && message === null && !hasOpenCalls;
    case "error":
      return false;
  }
}

function advice({ status }: Session, verb: Verb): string {
  switch (status) {
    case "awaiting_user":
      return "answer the question with reply";
    case "awaiting_tools":
      return "answer the calls with submitToolResult or decide, then call continue";
    case "idle":
    case "completed":
      if (verb === "submitToolResult" || verb === "decide")
        return "no call waits for an answer any more: read the session again to see what was decided";
      return `${verb} is not possible now`;
    case "error":
      return `${verb} is not possible now`;
  }
}

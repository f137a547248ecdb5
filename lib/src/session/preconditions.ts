// What may be done to a session in which status. A status that does not allow a verb is the caller's bug and throws `MisuseError`; a session that
// has failed refuses everything with a `SessionError` until it is recovered.
//
//                     start  reply            continue(message)      continue(null)           step   submit, decide
//   idle, completed   yes    yes              yes                    yes                      yes    no
//   awaiting_user     no     yes              only a user's message  no                       no     only with pending calls
//   awaiting_tools    no     no               no                     when nothing waits       no     yes
//   error             SessionError for all

import type { Message, PendingToolCall, Session } from "../model/internal.ts";

import { MisuseError, SessionError, sessionError } from "../model/internal.ts";

export type Verb = "start" | "reply" | "continue" | "step" | "submitToolResult" | "decide";

/** Does somebody still have to say something to this call? */
export function isOpen({ decision }: PendingToolCall): boolean {
  return decision === null;
}

export function checkStatus(session: Session, verb: Verb, message: Message | null): void {
  if (session.status === "error") {
    throw new SessionError("session_in_error_state", {
      message: "the session has failed; recover(session) makes it usable again",
      metadata: { status: session.status, reason: sessionError(session)?.reason ?? null },
    });
  }
  if (allows(session, verb, message)) return;
  const open = session.pendingToolCalls.filter(isOpen).length;
  const waits = open === 0 ? "" : `, with ${open} calls that wait for an answer`;
  throw new MisuseError(
    "invalid_status",
    `${verb}: the session is ${session.status}${waits}; ${advice(session, verb)}`,
    {
      path: ["status"],
    },
  );
}

function allows({ status, pendingToolCalls }: Session, verb: Verb, message: Message | null): boolean {
  const waiting = pendingToolCalls.filter(isOpen).length > 0;
  switch (status) {
    case "idle":
    case "completed":
      return verb !== "submitToolResult" && verb !== "decide";
    case "awaiting_user":
      if (verb === "submitToolResult" || verb === "decide") return waiting;
      return verb === "reply" || (verb === "continue" && message?.role === "user");
    case "awaiting_tools":
      if (verb === "submitToolResult" || verb === "decide") return true;
      return verb === "continue" && message === null && !waiting;
    case "error":
      return false;
  }
}

function advice({ status }: Session, verb: Verb): string {
  switch (status) {
    case "awaiting_user":
      return "answer its question with reply";
    case "awaiting_tools":
      return "answer its calls with submitToolResult or decide, then continue";
    case "idle":
    case "completed":
    case "error":
      return `${verb} is not possible now`;
  }
}

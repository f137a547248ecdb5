// The states of a session between its turns.

import type { WordOf } from "../parse/shape.ts";

/**
 * What a session waits for. `idle` and `completed`: the next message. `awaiting_user`: the answer to a question.
 * `awaiting_tools`: results or decisions for pending calls. `error`: a call of `recover`.
 */
export type SessionStatus = WordOf<typeof sessionStatuses>;

export const sessionStatuses = ["idle", "awaiting_user", "awaiting_tools", "completed", "error"] as const;

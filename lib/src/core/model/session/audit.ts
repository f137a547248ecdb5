// The audit log as the runtime returns it and the HTTP API sends it. The lowest layer declares it, so that a client in
// a browser has the same types as the server.

/** What the audit log records. */
export type AuditAction =
  | "approve"
  | "deny"
  | "submit_results"
  | "cancel"
  | "recover"
  | "compact"
  | "undo_compaction"
  | "delete"
  | "export"
  | "key_create"
  | "key_rotate"
  | "key_revoke";

/** A row of the audit log. */
export type AuditEntry = {
  /** In milliseconds, by the clock of the storage. */
  readonly at: number;
  readonly id: string;
  /** An {@link AuditAction}, or one of a newer release. */
  readonly action: string;
  /** Who did it. `null`: a program that gave no name. */
  readonly actor: string | null;
  /** The tenant of the session or the key. */
  readonly tenant: string;
  /** The id of the session; `null`: it concerns none. */
  readonly sessionId: string | null;
  /** The id of the call, the turn or the key; `null`: the session as a whole. */
  readonly target: string | null;
  /** A digest of what it was done to: of the call that was decided, or of the history; `null`: there is none. */
  readonly digest: string | null;
};

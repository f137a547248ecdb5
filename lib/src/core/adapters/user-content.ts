// The check that every adapter makes before it sends a request. Providers treat blank user text differently (some
// refuse it, some answer it), so no adapter sends it.

import type { ModelRequest } from "../model/internal.ts";

import { blankUserIssues, ValidationError } from "../model/internal.ts";

/** Throws `ValidationError` if a user message of the request is blank. */
export function checkUserContent({ messages }: ModelRequest): void {
  const issues = blankUserIssues(messages);
  if (issues.length > 0) throw new ValidationError("invalid_request", { issues });
}

// Loads the code that calls middleware. It is loaded on first use: a program without middleware does not contain it.

import type { RunPlan } from "../plan/plan.ts";
import type { Scope } from "../ports/ports.ts";
import type { MiddlewareChain } from "./middleware-chain.ts";

/** The middleware of an effect; `null`, at once, if the engine has none for calls of this kind. */
export function middlewareOf(
  plan: RunPlan,
  kind: "model" | "tool",
  scope: Scope,
  effectId: string,
): Promise<MiddlewareChain> | null {
  if (plan.middleware.every((middleware) => middleware[kind] === undefined)) return null;
  return import("./middleware-chain.ts").then(({ MiddlewareChain }) => new MiddlewareChain(plan, scope, effectId));
}

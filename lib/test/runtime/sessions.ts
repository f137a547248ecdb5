// Helpers for tests of the runtime with scripted models: one process over a storage in memory.

import type { Engine, Json } from "everturn";
import type { Runtime, RuntimeOptions } from "everturn/runtime";

import { fake, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";

/** A scripted reply that calls a tool. */
export const toolCall = (name: string) => ({ type: "tool_call", name }) as const;

/** A scripted reply of text. */
export const says = (text: string) => ({ type: "text", text }) as const;

/** A runtime with one engine over a new storage in memory. */
export function sessionsOf(of: Engine, options: Partial<RuntimeOptions> = {}): Runtime {
  return runtime({ host: memoryStorage(), engines: { default: of }, live: false, ...options });
}

/** A tool `work` with this handler and the replay policy `safe`. */
export function workTool(handler: () => Json | Promise<Json>) {
  return tool({ name: "work", description: "Works.", schema: { type: "object" }, replay: "safe", handler });
}

/** A tool that a person has to approve. */
export const approved = tool({
  name: "work",
  description: "Works.",
  schema: { type: "object" },
  needsApproval: true,
  handler: () => "ok",
});

/** A scripted model with one reply of text for each turn. */
export const replies = (...texts: readonly string[]) => fake({ scripts: texts.map((text) => [says(text)]) });

/** A promise that resolves when the test calls `open`. */
export function latch(): { readonly passed: Promise<void>; readonly open: () => void } {
  const resolvers: (() => void)[] = [];
  const passed = new Promise<void>((resolve) => void resolvers.push(resolve));
  return { passed, open: () => resolvers.forEach((resolve) => resolve()) };
}

/** The error that a promise rejects with; `null`: it resolves. */
export async function rejectionOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => null,
    (error: unknown) => error,
  );
}

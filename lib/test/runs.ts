// Helpers for tests that run engines with scripted models.

import type { EngineFields } from "../src/core/engine/internal.ts";
import type { FakeScript, FakeStep, Tool, CallerContext } from "everturn";

import { engine, fake, tool } from "everturn";
import { handClock } from "everturn/testing";

export const says = (text: string): FakeScript => [{ type: "text", text }];

/** A reply with calls whose ids are their positions: `c0`, `c1`. */
export const calls = (...names: readonly string[]): FakeScript =>
  names.map((name, index): FakeStep => ({ type: "tool_call", id: `c${index}`, name, arguments: {} }));

/** A tool that accepts any object. */
export function plain(name: string, handler?: () => unknown): Tool {
  const described = { name, description: name, schema: { type: "object" } };
  return handler === undefined ? tool(described) : tool({ ...described, handler });
}

/** An engine with these scripts, on a clock that does not advance. */
export function playing(
  scripts: readonly FakeScript[],
  tools: readonly Tool[] = [],
  rest: Omit<EngineFields<CallerContext>, "context"> = {},
) {
  const clock = handClock();
  const adapter = fake({ scripts, clock });
  return { adapter, clock, engine: engine({ adapter, model: "fake:m", tools, clock, ...rest }) };
}
